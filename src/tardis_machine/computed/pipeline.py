"""Computed types over a stream of records, one call per chunk."""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeVar

from tardis_machine.computed.book_snapshots import BookSnapshots, new_snapshots
from tardis_machine.computed.trade_bars import TradeBars
from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import BookSnapshotSpec, ComputedSpec, TradeBarSpec
from tardis_machine.model.records import BookChange, EncodedBookChange, Record, Trade
from tardis_machine.model.time import us_text

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

        def new_state() -> BookSnapshots:
            return new_snapshots(snapshot_specs, trim_levels=trim_levels)

        def new_bars() -> TradeBars:
            return TradeBars(bar_specs)

        self._has_snapshots, self._has_bars = bool(snapshot_specs), bool(bar_specs)
        self._snapshots = _per_symbol(new_state)
        self._bars = _per_symbol(new_bars)

    def apply(self, records: Iterable[Record]) -> list[Record]:
        """Return the records of a chunk, each followed by what it triggers."""
        out: list[Record] = []
        emit = out.append
        has_snapshots, has_bars = self._has_snapshots, self._has_bars
        for record in records:
            emit(record)
            # Exact types, which cost less than `isinstance`: this runs for every record.
            if type(record) is BookChange or type(record) is EncodedBookChange:
                if has_snapshots:
                    self._snapshots[record.exchange][record.symbol].apply(record, out)
            elif type(record) is Trade:
                if has_bars:
                    self._bars[record.exchange][record.symbol].apply(record, out)
            elif isinstance(record, Disconnect):
                self._snapshots.pop(record.exchange, None)
                self._bars.pop(record.exchange, None)
        return out

    def start_over(self, end_us: int) -> list[Record]:
        """Drop all state at a time; return the records per interval that have ended by then.

        They arrive with the last microsecond before that time. Bars that are not full, and
        intervals that go on, are discarded.
        """
        timestamp, local_timestamp = us_text(end_us), us_text(end_us - 1)
        out: list[Record] = []
        for exchange, books in self._snapshots.items():
            for symbol, snapshots in books.items():
                snapshots.apply(_no_change(exchange, symbol, timestamp, local_timestamp), out)
        for by_symbol in self._bars.values():
            for bars in by_symbol.values():
                bars.close_due(timestamp, local_timestamp, out)
        self._snapshots.clear()
        self._bars.clear()
        return out

    def forget(
        self, exchange: str, data_types: Container[str], concerns: Callable[[str], bool]
    ) -> None:
        """Drop the state of symbols whose books or trades may miss something."""
        if "book_change" in data_types:
            _forget(self._snapshots[exchange], concerns)
        if "trade" in data_types:
            _forget(self._bars[exchange], concerns)

    def triggered_by(self, record: Record) -> list[Record]:
        """Return only what one record triggers."""
        return self.apply([record])[1:]


def _forget(states: dict[str, State], concerns: Callable[[str], bool]) -> None:
    for symbol in [*filter(concerns, states)]:
        del states[symbol]


def _no_change(exchange: str, symbol: str, timestamp: str, local_timestamp: str) -> BookChange:
    """Make a change that only lets time pass."""
    return BookChange(
        exchange=exchange,
        symbol=symbol,
        is_snapshot=False,
        bids=[],
        asks=[],
        timestamp=timestamp,
        local_timestamp=local_timestamp,
    )


def _per_symbol(new_state: Callable[[], State]) -> defaultdict[str, defaultdict[str, State]]:
    """Make a table of states by exchange and symbol, each created at its first use."""
    return defaultdict(lambda: defaultdict(new_state))
