"""Computed types over a stream of records, one call per chunk."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tardis_machine.computed.book_snapshots import BookSnapshots
from tardis_machine.computed.trade_bars import TradeBars
from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import BookSnapshotSpec, ComputedSpec, TradeBarSpec
from tardis_machine.model.records import BookChange, Record, Trade

State = TypeVar("State")


class Computables:
    """Computes the requested types for every symbol of one stream.

    State is kept per exchange and symbol. A disconnect drops that of its exchange: books wait for
    a new snapshot, open bars are discarded. Nothing is flushed at the end of a stream.

    Args:
        specs: What is requested; one record can trigger several, in this order.
        trim_levels: Leave missing levels of snapshots out instead of writing `{}` for them.
    """

    def __init__(self, specs: Sequence[ComputedSpec], *, trim_levels: bool = False) -> None:
        # Snapshots come from book changes and bars from trades, so their order never mixes.
        snapshot_specs = [spec for spec in specs if isinstance(spec, BookSnapshotSpec)]
        bar_specs = [spec for spec in specs if isinstance(spec, TradeBarSpec)]

        def new_snapshots() -> BookSnapshots:
            return BookSnapshots(snapshot_specs, trim_levels=trim_levels)

        def new_bars() -> TradeBars:
            return TradeBars(bar_specs)

        self._has_snapshots, self._has_bars = bool(snapshot_specs), bool(bar_specs)
        self._snapshots = _per_symbol(new_snapshots)
        self._bars = _per_symbol(new_bars)

    def apply(self, records: Iterable[Record]) -> list[Record]:
        """Return the records of a chunk, each followed by what it triggers."""
        out: list[Record] = []
        for record in records:
            out.append(record)
            if isinstance(record, BookChange):
                if self._has_snapshots:
                    self._snapshots[record.exchange][record.symbol].apply(record, out)
            elif isinstance(record, Trade):
                if self._has_bars:
                    self._bars[record.exchange][record.symbol].apply(record, out)
            elif isinstance(record, Disconnect):
                self._snapshots.pop(record.exchange, None)
                self._bars.pop(record.exchange, None)
        return out

    def triggered_by(self, record: Record) -> list[Record]:
        """Return only what one record triggers."""
        return self.apply([record])[1:]


def _per_symbol(new_state: Callable[[], State]) -> defaultdict[str, defaultdict[str, State]]:
    """Make a table of states by exchange and symbol, each created at its first use."""
    return defaultdict(lambda: defaultdict(new_state))
