"""Recorded lines of one segment to records, with the state a connection has."""

from collections.abc import Iterator, Sequence

from tardis_machine.exchanges.lines import LOCAL_DIGITS
from tardis_machine.exchanges.normalizer import Normalizer, mapping_error
from tardis_machine.exchanges.spec import Emit, Exchange
from tardis_machine.exchanges.versions import make_normalizer
from tardis_machine.model.control import Disconnect
from tardis_machine.model.errors import MappingError
from tardis_machine.model.time import Clock, parse_us
from tardis_machine.sources.recording.mapping import RecordedMapper
from tardis_machine.sources.recording.markers import MARK
from tardis_machine.telemetry.replay_metrics import ReplayCounters

MAPPED_AT_ONCE_BYTES = 64 * 1024
"""Lines mapped at once, more or less: records of more of them leave the processor's second cache
before they are encoded, which costs a tenth."""


def small_parts(data: bytes, size_bytes: int = MAPPED_AT_ONCE_BYTES) -> Iterator[bytes]:
    """Cut whole lines into parts of about a size."""
    if len(data) <= size_bytes:
        yield data
        return
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + size_bytes) + 1 or len(data)
        yield data[start:end]
        start = end


class SegmentMapper:
    """Maps chunks of one segment; every disconnect starts over with fresh mappers."""

    def __init__(
        self,
        exchange: Exchange,
        source_types: Sequence[str],
        clock: Clock,
        counters: ReplayCounters,
        *,
        with_disconnects: bool,
        on_unseen: Emit | None = None,
    ) -> None:
        """Map for one exchange; `on_unseen` takes the disconnects that are not emitted."""
        self._on_unseen = on_unseen
        self._counters = counters
        self._exchange = exchange
        self._source_types = source_types
        self._clock = clock
        self._with_disconnects = with_disconnects
        self._normalizer: Normalizer | None = None
        self._last_line = b""
        self._recorded: RecordedMapper | None = None

    @property
    def is_recorded(self) -> bool:
        """Say whether the lines are a recording of our own, whose losses are records here."""
        return self._recorded is not None

    def map_chunk(self, data: bytes, emit: Emit) -> None:
        """Emit the records of a chunk of whole lines."""
        lines = data.split(b"\n")
        lines.pop()
        if self._recorded is not None or MARK in data:
            self._recorded = self._recorded or RecordedMapper(
                self._exchange, self._source_types, self._counters
            )
            self._recorded.map_lines(lines, emit)
        elif not all(lines):
            self._map_with_gaps(lines, emit)
        elif lines:
            self._map_run(lines, emit)

    def _map_with_gaps(self, lines: list[bytes], emit: Emit) -> None:
        run: list[bytes] = []
        for line in lines:
            if line:
                run.append(line)
                continue
            if run:
                self._map_run(run, emit)
                run = []
            self._disconnect(emit)
        if run:
            self._map_run(run, emit)

    def _map_run(self, lines: list[bytes], emit: Emit) -> None:
        """Map lines of one connection."""
        self._last_line = lines[-1]
        self._counters.messages.inc(len(lines))
        try:
            normalizer = self._normalizer or self._new_normalizer(lines[0])
            normalizer.map_lines(lines, emit)
        except MappingError:
            self._counters.mapping_errors.inc()
            raise

    def _new_normalizer(self, line: bytes) -> Normalizer:
        """Start over with the mappers of a line's time."""
        start_us = self._recorded_us(line)
        self._normalizer = make_normalizer(
            self._exchange, self._source_types, start_us, self._clock(), is_live=False
        )
        return self._normalizer

    def _recorded_us(self, line: bytes) -> int:
        try:
            return parse_us(_local_text(line))
        except ValueError as error:
            raise mapping_error(self._exchange.id, line, error) from error

    def _disconnect(self, emit: Emit) -> None:
        # Markers before the first line, and repeated ones, say nothing new.
        if self._normalizer is None:
            return
        self._normalizer = None
        self._counters.disconnects.inc()
        tell = emit if self._with_disconnects else self._on_unseen
        if tell is not None:
            tell(
                Disconnect(exchange=self._exchange.id, local_timestamp=_local_text(self._last_line))
            )


def _local_text(line: bytes) -> str:
    return str(line[:LOCAL_DIGITS], "ascii") + "Z"
