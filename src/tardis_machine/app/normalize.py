"""Recorded lines of files or a pipe to normalized NDJSON, without a server."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from tardis_machine.app.settings import NormalizeOptions
from tardis_machine.app.wiring import system_clock
from tardis_machine.compute.pipeline import Computables
from tardis_machine.exchanges import REGISTRY
from tardis_machine.exchanges.filters import accepted_symbols
from tardis_machine.exchanges.versions import check_supported
from tardis_machine.model.control import encode_lines
from tardis_machine.model.data_types import (
    check_data_types,
    computed_specs,
    output_type,
    source_types,
)
from tardis_machine.model.errors import UnknownNameError
from tardis_machine.model.records import Record
from tardis_machine.session.mapping import SegmentMapper
from tardis_machine.sources.slices import PIECE_BYTES, read_slice, whole_lines

COMPRESSED = (".zst", ".gz")


class LineNormalizer:
    """Turns chunks of recorded lines into NDJSON of the types asked for."""

    def __init__(self, options: NormalizeOptions) -> None:
        if options.exchange not in REGISTRY:
            raise UnknownNameError("exchange", options.exchange, tuple(REGISTRY))
        check_data_types(options.data_types)
        sources = source_types(options.data_types)
        check_supported(options.exchange, sources)
        self._mapper = SegmentMapper(
            REGISTRY[options.exchange],
            sources,
            system_clock,
            with_disconnects=options.with_disconnects,
        )
        self._computables = Computables(computed_specs(options.data_types))
        self._symbols = accepted_symbols(options.symbols, ())
        self._types = {*map(output_type, options.data_types), "disconnect"}

    def normalize(self, lines: bytes) -> bytes:
        """Return the records of whole lines."""
        records: list[Record] = []
        self._mapper.map_chunk(lines, records.append)
        if self._symbols is not None:
            records = [each for each in records if self._is_wanted(each)]
        records = self._computables.apply(records)
        return encode_lines([each for each in records if each.type in self._types])

    def _is_wanted(self, record: Record) -> bool:
        return self._symbols is None or getattr(record, "symbol", None) in (*self._symbols, None)


def normalize_files(options: NormalizeOptions, standard_input: BinaryIO) -> Iterator[bytes]:
    """Yield the NDJSON of files in their order, or of standard input when none are named."""
    normalizer = LineNormalizer(options)
    for chunk in _chunks(options.files, standard_input):
        body = normalizer.normalize(chunk)
        if body:
            yield body


def _chunks(files: Iterable[Path], standard_input: BinaryIO) -> Iterator[bytes]:
    paths = tuple(files)
    if not paths:
        yield from whole_lines(iter(lambda: standard_input.read(PIECE_BYTES), b""))
    for path in paths:
        if path.suffix in COMPRESSED:
            yield from read_slice(path)
        else:
            with path.open("rb") as file:
                yield from whole_lines(iter(lambda: file.read(PIECE_BYTES), b""))
