"""Recorded lines of files or a pipe to normalized NDJSON, without a server."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from tardis_machine.app.settings.commands import NormalizeOptions
from tardis_machine.computed.pipeline import Computables
from tardis_machine.exchanges.filters import accepted_symbols
from tardis_machine.exchanges.lines import LOCAL_DIGITS
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import check_supported, replay_filters, switches_us
from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import (
    check_data_types,
    computed_specs,
    output_type,
    source_types,
)
from tardis_machine.model.errors import MappingError, SourceError, UnknownNameError
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import Record
from tardis_machine.model.time import us_text
from tardis_machine.session.mapping import SegmentMapper
from tardis_machine.sources.recording.mapping import apart, loss_in, tell_loss
from tardis_machine.sources.slices import PIECE_BYTES, read_slice, whole_lines
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.metrics import Metrics

COMPRESSED = (".zst", ".gz")


class LineNormalizer:
    """Turns chunks of recorded lines into NDJSON of the types asked for."""

    def __init__(self, exchange: Exchange, options: NormalizeOptions) -> None:
        self._exchange = exchange
        self._sources = source_types(options.data_types)
        self._with_disconnects = options.with_disconnects
        # The metrics of this process are not served.
        self._counters = Metrics().replay.of(exchange.id)
        self._mapper = self._new_mapper()
        self._switches = self._switch_times()
        self._computables = Computables(computed_specs(options.data_types))
        self._asked = options.symbols
        self._symbols = self._wanted_symbols(options.symbols)
        self._types = {*map(output_type, options.data_types), "disconnect"}

    def normalize(self, lines: bytes) -> Iterator[bytes]:
        """Yield the records of whole lines.

        Raises:
            MappingError: for a line that is no message, after the records before it.
        """
        for part in self._parts(lines):
            records: list[Record] = []
            try:
                self._mapper.map_chunk(part, records.append)
            except MappingError:
                yield self._encoded(records)
                raise
            yield self._encoded(records)

    def _parts(self, lines: bytes) -> Iterator[bytes]:
        """Cut lines where a venue changed its format; each part has mappers of its own."""
        while self._switches and (cut := _first_since(self._switches[0], lines)) is not None:
            yield lines[:cut]
            lines = lines[cut:]
            self._switches.pop(0)
            self._mapper = self._new_mapper()
        yield lines

    def _encoded(self, records: list[Record]) -> bytes:
        if self._mapper.is_recorded:
            return b"".join(map(self._encoded_part, apart(records)))
        return self._encoded_part(records)

    def _encoded_part(self, records: list[Record]) -> bytes:
        if (loss := loss_in(records)) is not None:
            told = tell_loss(loss, self._computables, self._asked)
            return encode_lines(told) if self._with_disconnects else b""
        if (symbols := self._symbols) is not None:
            records = [
                record
                for record in records
                if type(record) is Disconnect or record.symbol in symbols  # type: ignore[attr-defined]
            ]
        records = self._computables.apply(records)
        return encode_lines([record for record in records if record.type in self._types])

    def _new_mapper(self) -> SegmentMapper:
        return SegmentMapper(
            self._exchange,
            self._sources,
            system_clock,
            self._counters,
            with_disconnects=self._with_disconnects,
        )

    def _switch_times(self) -> list[bytes]:
        """Return when new formats begin, in the form that lines start with."""
        switches = switches_us(self._exchange, self._sources)
        return [us_text(us)[:LOCAL_DIGITS].encode() for us in switches]

    def _wanted_symbols(self, symbols: tuple[str, ...]) -> frozenset[str] | None:
        now_us = system_clock()
        native = replay_filters(self._exchange, self._sources, symbols, now_us, now_us)
        return accepted_symbols(symbols, native)


def normalize_files(options: NormalizeOptions, standard_input: BinaryIO) -> Iterator[bytes]:
    """Yield the NDJSON of files in their order, or of standard input when none are named."""
    normalizer = LineNormalizer(check_options(options), options)
    for chunk in _chunks(options.files, standard_input):
        yield from filter(None, normalizer.normalize(chunk))


def check_options(options: NormalizeOptions) -> Exchange:
    """Return the exchange of checked options."""
    if options.exchange not in REGISTRY:
        raise UnknownNameError("exchange", options.exchange, tuple(REGISTRY))
    check_data_types(options.data_types)
    check_supported(options.exchange, source_types(options.data_types))
    return REGISTRY[options.exchange]


def _first_since(time: bytes, lines: bytes) -> int | None:
    """Return the offset of the first line that is not earlier than a time, None without one."""
    start = 0
    while start < len(lines):
        end = lines.find(b"\n", start) + 1
        if lines[start : end - 1][:LOCAL_DIGITS] >= time:
            return start
        start = end
    return None


def _chunks(files: Iterable[Path], standard_input: BinaryIO) -> Iterator[bytes]:
    paths = tuple(files)
    if not paths:
        yield from _plain_lines(standard_input)
    for path in paths:
        yield from read_slice(path) if path.suffix in COMPRESSED else _read_plain(path)


def _read_plain(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from _plain_lines(file)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.") from error


def _plain_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield whole lines; unlike in a slice, a last one without a line feed counts."""
    # A pipe gives what it has; waiting for a whole piece would hold records back.
    read = getattr(file, "read1", file.read)
    return whole_lines(_ended(iter(lambda: read(PIECE_BYTES), b"")))


def _ended(pieces: Iterable[bytes]) -> Iterator[bytes]:
    last = b"\n"
    for last in pieces:
        yield last
    if not last.endswith(b"\n"):
        yield b"\n"
