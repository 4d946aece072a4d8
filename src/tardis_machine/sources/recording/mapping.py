"""Lines that this program recorded itself, mapped as they were live.

The same mappers see the same messages and losses, so that the same records come out: gaps in books
are noticed again, and what a lost connection reset then is reset now.
"""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from tardis_machine.computed.pipeline import Computables
from tardis_machine.exchanges.lines import LOCAL_DIGITS, MESSAGE_START
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.spec import Emit, Exchange, Mapper
from tardis_machine.exchanges.versions import NO_CREDENTIALS, live_mappers, venue_of
from tardis_machine.model.control import Disconnect
from tardis_machine.model.errors import MappingError
from tardis_machine.model.records import Record
from tardis_machine.sources.recording.markers import RecordedLoss, read_marker
from tardis_machine.telemetry.replay_metrics import ReplayCounters


class LossRecord(Disconnect, frozen=True, kw_only=True, tag="disconnect"):
    """A disconnect on its way to those whom it concerns."""

    data_types: frozenset[str]
    lost_symbols: frozenset[str] | None
    """In upper case; None for all."""

    def concerns(self, symbol: str) -> bool:
        """Say whether it is about a symbol, however it is written."""
        return self.lost_symbols is None or symbol.upper() in self.lost_symbols

    def shown(self, requested: Sequence[str]) -> Disconnect | None:
        """Return what a client sees who asked for these symbols, or for all; None for nothing."""
        symbols = [symbol for symbol in requested if self.concerns(symbol)]
        if requested and not symbols:
            return None
        return Disconnect(
            exchange=self.exchange,
            local_timestamp=self.local_timestamp,
            symbols=symbols or UNSET,
        )


def apart(records: list[Record]) -> Iterator[list[Record]]:
    """Yield records in order, with each loss in a list of its own."""
    start = 0
    for place, record in enumerate(records):
        if type(record) is LossRecord:
            if start < place:
                yield records[start:place]
            yield [record]
            start = place + 1
    if start < len(records):
        yield records[start:]


def tell_loss(loss: LossRecord, computables: Computables, symbols: Sequence[str]) -> list[Record]:
    """Start computed records over, and return the disconnect that a client may see."""
    computables.forget(loss.exchange, loss.data_types, loss.concerns)
    shown = loss.shown(symbols)
    return [] if shown is None else [shown]


def loss_in(records: Sequence[Record]) -> LossRecord | None:
    """Return the loss that a list is."""
    first = records[0] if len(records) == 1 else None
    return first if isinstance(first, LossRecord) else None


class RecordedMapper:
    """Maps recorded lines and losses.

    Args:
        exchange: which.
        source_types: what to map to.
        counters: of the replay.
    """

    def __init__(
        self,
        exchange: Exchange,
        source_types: Sequence[str],
        counters: ReplayCounters,
    ) -> None:
        self._exchange = exchange
        self._source_types = source_types
        self._counters = counters
        self._mappers: dict[str, Mapper] = {}
        self._last_local = ""
        self._start_over(source_types)

    def map_lines(self, lines: Sequence[bytes], emit: Emit) -> None:
        """Emit records and losses; a message that no mapper understood live is left out again."""
        for line in lines:
            marker = read_marker(line) if line else None
            if not line:
                self._disconnect(emit)
            elif marker is None:
                self._map(line, emit)
            elif marker.lost is not None:
                self._lose(marker.lost, emit)

    def _map(self, line: bytes, emit: Emit) -> None:
        self._counters.messages.inc()
        self._last_local = local = line[:LOCAL_DIGITS].decode() + "Z"
        try:
            self._normalizer.map_message(line[MESSAGE_START:], local, emit)
        except MappingError:
            self._counters.mapping_errors.inc()

    def _lose(self, loss: RecordedLoss, emit: Emit) -> None:
        symbols = None if loss.symbols is None else frozenset(loss.symbols)
        lost = self._source_types if loss.is_everything else loss.data_types
        if loss.is_everything or symbols is None:
            self._start_over(lost)
        else:
            for name in self._mappers.keys() & set(lost):
                for symbol in symbols:
                    self._mappers[name].forget(symbol)
        if loss.is_everything:
            self._last_local = ""
        if not self._mappers.keys().isdisjoint(loss.data_types):
            local = loss.local_timestamp[:-1] + "000Z"
            self._tell(local, frozenset(loss.data_types), symbols, emit)

    def _disconnect(self, emit: Emit) -> None:
        # After a loss that was everything, and before the first line, it says nothing new.
        if self._last_local:
            local, self._last_local = self._last_local, ""
            self._start_over(self._source_types)
            self._tell(local, frozenset(self._source_types), None, emit)

    def _tell(
        self,
        local: str,
        data_types: frozenset[str],
        symbols: frozenset[str] | None,
        emit: Emit,
    ) -> None:
        self._counters.disconnects.inc()
        emit(
            LossRecord(
                exchange=self._exchange.id,
                local_timestamp=local,
                data_types=data_types,
                lost_symbols=symbols,
            )
        )

    def _start_over(self, data_types: Sequence[str]) -> None:
        """Begin with fresh mappers of these types."""
        wanted = [name for name in self._source_types if name in data_types]
        fresh = live_mappers(self._exchange, wanted, NO_CREDENTIALS)
        self._mappers = {
            name: fresh.get(name) or self._mappers[name] for name in self._source_types
        }
        wire_format = venue_of(self._exchange).formats[-1]
        self._normalizer = Normalizer(self._exchange.id, wire_format, [*self._mappers.values()])
