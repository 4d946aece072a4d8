"""Replay, stream, publish and lake tick-level crypto market data, locally.

The names below are the public API. Each is imported on first use, so that a part of the package,
such as `tardis_machine.model`, can be used without the libraries of the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tardis_machine.app.api import RawMessage, combine, compute, replay, replay_normalized
    from tardis_machine.app.machine import TardisMachine
    from tardis_machine.app.streaming import stream, stream_normalized
    from tardis_machine.model.control import Disconnect, FeedError
    from tardis_machine.model.data_types import BookSnapshotSpec, TradeBarSpec
    from tardis_machine.model.errors import (
        MappingError,
        RequestError,
        SettingsError,
        SourceError,
        TardisMachineError,
        UpstreamStatusError,
    )
    from tardis_machine.model.ndjson import decode_lines, encode_lines
    from tardis_machine.model.records import (
        BookChange,
        BookLevel,
        BookSnapshot,
        BookTicker,
        DerivativeTicker,
        Liquidation,
        OptionSummary,
        Record,
        SnapshotLevel,
        Trade,
        TradeBar,
    )
    from tardis_machine.model.requests import Filter
    from tardis_machine.session.streams import RecordStream
    from tardis_machine.version import __version__

__all__ = [
    "BookChange",
    "BookLevel",
    "BookSnapshot",
    "BookSnapshotSpec",
    "BookTicker",
    "DerivativeTicker",
    "Disconnect",
    "FeedError",
    "Filter",
    "Liquidation",
    "MappingError",
    "OptionSummary",
    "RawMessage",
    "Record",
    "RecordStream",
    "RequestError",
    "SettingsError",
    "SnapshotLevel",
    "SourceError",
    "TardisMachine",
    "TardisMachineError",
    "Trade",
    "TradeBar",
    "TradeBarSpec",
    "UpstreamStatusError",
    "__version__",
    "combine",
    "compute",
    "decode_lines",
    "encode_lines",
    "replay",
    "replay_normalized",
    "stream",
    "stream_normalized",
]

_MODULES = {
    "app.api": ("RawMessage", "combine", "compute", "replay", "replay_normalized"),
    "app.machine": ("TardisMachine",),
    "app.streaming": ("stream", "stream_normalized"),
    "model.control": ("Disconnect", "FeedError"),
    "model.data_types": ("BookSnapshotSpec", "TradeBarSpec"),
    "model.errors": (
        *("MappingError", "RequestError", "SettingsError"),
        *("SourceError", "TardisMachineError", "UpstreamStatusError"),
    ),
    "model.ndjson": ("decode_lines", "encode_lines"),
    "model.records": (
        *("BookChange", "BookLevel", "BookSnapshot", "BookTicker", "DerivativeTicker"),
        *("Liquidation", "OptionSummary", "Record", "SnapshotLevel", "Trade", "TradeBar"),
    ),
    "model.requests": ("Filter",),
    "session.streams": ("RecordStream",),
    "version": ("__version__",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names too, before they are imported."""
    return sorted({*globals(), *__all__})
