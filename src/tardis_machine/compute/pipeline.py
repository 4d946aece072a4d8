"""Computed types over a stream of records, one call per chunk."""

from collections.abc import Iterable, Sequence

from tardis_machine.compute.book_snapshots import BookSnapshots
from tardis_machine.compute.trade_bars import TradeBars
from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import BookSnapshotSpec, ComputedSpec, TradeBarSpec
from tardis_machine.model.records import BookChange, Record, Trade


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
        self._snapshot_specs = [spec for spec in specs if isinstance(spec, BookSnapshotSpec)]
        self._bar_specs = [spec for spec in specs if isinstance(spec, TradeBarSpec)]
        self._trim_levels = trim_levels
        self._snapshots: dict[str, dict[str, BookSnapshots]] = {}
        self._bars: dict[str, dict[str, TradeBars]] = {}

    def apply(self, records: Iterable[Record]) -> list[Record]:
        """Return the records of a chunk, each followed by what it triggers."""
        out: list[Record] = []
        for record in records:
            out.append(record)
            self._trigger(record, out)
        return out

    def triggered_by(self, record: Record) -> list[Record]:
        """Return only what one record triggers."""
        out: list[Record] = []
        self._trigger(record, out)
        return out

    def _trigger(self, record: Record, out: list[Record]) -> None:
        if isinstance(record, BookChange):
            if self._snapshot_specs:
                self._snapshots_of(record).apply(record, out)
        elif isinstance(record, Trade):
            if self._bar_specs:
                self._bars_of(record).apply(record, out)
        elif isinstance(record, Disconnect):
            self._snapshots.pop(record.exchange, None)
            self._bars.pop(record.exchange, None)

    def _snapshots_of(self, change: BookChange) -> BookSnapshots:
        try:
            return self._snapshots[change.exchange][change.symbol]
        except KeyError:
            snapshots = BookSnapshots(self._snapshot_specs, trim_levels=self._trim_levels)
            self._snapshots.setdefault(change.exchange, {})[change.symbol] = snapshots
            return snapshots

    def _bars_of(self, trade: Trade) -> TradeBars:
        try:
            return self._bars[trade.exchange][trade.symbol]
        except KeyError:
            bars = TradeBars(self._bar_specs)
            self._bars.setdefault(trade.exchange, {})[trade.symbol] = bars
            return bars
