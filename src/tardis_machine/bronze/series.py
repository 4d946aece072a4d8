"""A series: what events of one stream share, and what is made of that once for all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

from tardis_machine.bronze.cases import AnyCase
from tardis_machine.bronze.content import FIRST_VERSION
from tardis_machine.model.time import us_text

if TYPE_CHECKING:
    from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb

_T = TypeVar("_T")


class Origin(StrEnum):
    """How records came to the producer."""

    REALTIME = "realtime"
    REPLAY = "replay"
    ARCHIVE = "archive"

    @property
    def number(self) -> "pb.Origin":
        """Return the value of the envelope's `origin`."""
        # Settings know origins too, and Protobuf takes 60 ms to import.
        from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb

        number: pb.Origin = getattr(pb, f"ORIGIN_{self.name}")
        return number


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Series:
    """What the events of one stream with the same exchange, symbol, case and name share.

    Series are compared by identity: one stream makes one object per series. Every request is a
    stream of its own, so whatever is derived from a series (destination, key, headers) is kept with
    it and goes with it.
    """

    case: AnyCase
    exchange: str
    symbol: str
    name: str
    """The requested data type of computed records; empty for others."""
    source: str
    origin: Origin
    meta: Mapping[str, str]
    """Ingest metadata of the stream; the envelopes hold `data_type` besides."""
    mapper_version: int = FIRST_VERSION
    state_from_us: int | None = None
    """When mapping began, where the events may lack what came before; None: they are complete."""
    recorder: str = ""
    """Who recorded on their own what was replayed; empty for live feeds and the archive."""
    data_type: str = field(init=False)
    """The name of computed records, the record type of others."""
    label: str = field(init=False)
    """The part of the identity that all events of the series share."""
    identity_end: str = field(init=False)
    """The last part of the identity: of which capture an event is, unless of the usual one."""
    derived: "Derived" = field(init=False, repr=False)
    """Where `PerSeries` keeps what it makes."""

    def __post_init__(self) -> None:
        label = series_label(self.exchange, self.symbol, self.case, self.name)
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "identity_end", self._identity_end())
        object.__setattr__(self, "data_type", self.case.data_type(self.name))
        object.__setattr__(self, "derived", Derived(self))

    def _identity_end(self) -> str:
        source = self.source if self.origin is Origin.REALTIME else ""
        return identity_end(source, self.state_from_us, self.recorder)


class PerSeries(Generic[_T]):
    """Makes something of a series the first time it is asked for it.

    `per_series[series]`, or in a hot loop `series.derived[per_series]`, which costs no call.
    """

    def __init__(self, make: Callable[[Series], _T]) -> None:
        self.make = make

    def __getitem__(self, series: Series) -> _T:
        made: _T = series.derived[self]
        return made


class Derived(dict[PerSeries[Any], Any]):
    """What was made of one series, by who made it."""

    __slots__ = ("_series",)

    def __init__(self, series: Series) -> None:
        # Not the series itself: a cycle would outlive the stream until it is garbage collected.
        self._series = ref(series)

    def __missing__(self, maker: PerSeries[_T]) -> _T:
        series = self._series()
        assert series is not None, "whoever asks has the series"
        made = self[maker] = maker.make(series)
        return made


def series_label(exchange: str, symbol: str, case: AnyCase, name: str) -> str:
    """Return the part of an identity that all events of a series share."""
    label = f"{exchange}:{symbol}:{case.value}"
    return f"{label}:{name}" if name else label


def identity_end(source: str, state_from_us: int | None, recorder: str) -> str:
    """Return the last part of an identity.

    Args:
        source: of a live event; empty for others.
        state_from_us: of an event that may lack what came before; None for others.
        recorder: of a recording of one's own; empty for others.
    """
    recorded = f":recorded:{recorder}" if recorder else ""
    if state_from_us is not None:
        return f":partial:{us_text(state_from_us)}{recorded}"
    return recorded or (f":{source}" if source else "")
