"""Recorded slices as files, found in the cache or fetched into it, and their readers.

A decompressor in the middle of a slice holds up to 2 MiB. Where many streams are open, readers that
wait for long close theirs, and read up to the same place again when they go on. So do those that
wait longest where too many are open.
"""

import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from tardis_machine.model.errors import SliceError
from tardis_machine.model.time import MINUTE_US
from tardis_machine.sources.cache import MAX_SLICE_MINUTES, SliceFile, SliceFolder
from tardis_machine.sources.data_api import DataApi, SliceRequest
from tardis_machine.sources.fetch_plan import Span
from tardis_machine.sources.recording.markers import read_marker
from tardis_machine.sources.slices import (
    PIECE_BYTES,
    SMALL_PIECE_BYTES,
    lines_between,
    read_slice,
)
from tardis_machine.sources.turns import LongTurn, Turns

FEW = 64
"""Readers that keep what they have, however long they wait."""

MOST_OPEN = 100
"""Readers that wait with open files."""

RESUMED_PIECE_BYTES = 128 * 1024
"""Smallest piece of a reader that had to read up to its place again: it does so less often."""

WAIT_SECONDS = 0.1
"""How long a reader waits before it closes its files. The time doubles whenever it does, so that a
client that takes a little now and then costs little."""


@dataclass(frozen=True, slots=True)
class ReadySpan:
    """Whole minutes and the files that hold them, in order."""

    span: Span
    files: tuple[SliceFile, ...]
    """None where an own recording has a hole."""
    suggested_minutes: int = 1
    is_own: bool = False
    """Whether it was recorded by `--record`: nobody else has it."""

    @property
    def is_whole_feed(self) -> bool:
        """Say whether the files hold all channels of the exchange."""
        return self.is_own or self.files[0].is_whole_feed

    def pieces(self, piece_bytes: int = PIECE_BYTES) -> Generator[bytes, None, None]:
        """Yield the lines of the span and of nothing else."""
        if not self.files:
            # A disconnect: what follows must not continue what came before.
            yield b"\n"
        for file in self.files:
            start_us = max(file.start_us, self.span.start_us)
            end_us = min(file.end_us, self.span.end_us)
            pieces = read_slice(file.path, piece_bytes)
            if (start_us, end_us) != (file.start_us, file.end_us):
                pieces = lines_between(pieces, start_us, end_us)
            yield from pieces


class OwnSlices:
    """What `--record` wrote of one exchange."""

    def __init__(self, directory: Path, exchange: str) -> None:
        self.folder = SliceFolder(directory, exchange, ())

    def covers(self, span: Span) -> bool:
        """Say whether both ends of a span were recorded."""
        edges = (span.start_us, span.end_us - MINUTE_US)
        return all(self.folder.find_exact(minute_us, 1) for minute_us in edges)

    def recorder(self, minute_us: int) -> str:
        """Return the id of who recorded a minute; empty when its slice does not say it."""
        file = self.folder.find_exact(minute_us, 1)
        if file is None:
            return ""
        # Whoever reads it tells when it cannot be read.
        with suppress(SliceError):
            lines = next(read_slice(file.path, SMALL_PIECE_BYTES), b"").lstrip(b"\n").splitlines()
            marker = read_marker(lines[0]) if lines else None
            return "" if marker is None else marker.recorder
        return ""

    def minutes(self, span: Span) -> Iterator[ReadySpan]:
        """Yield every minute of a span, those that were not recorded without files."""
        for start_us in range(span.start_us, span.end_us, MINUTE_US):
            file = self.folder.find_exact(start_us, 1)
            minute = Span(start_us, start_us + MINUTE_US)
            yield ReadySpan(minute, (file,) if file else (), is_own=True)


class RecordedSlices:
    """The slices of one exchange and one set of filters, for one replay."""

    def __init__(self, api: DataApi, cache_dir: Path, request: SliceRequest) -> None:
        self.folder = SliceFolder(cache_dir, request.exchange, request.filters)
        self._api = api
        self._request = request
        # Without filters, the data API cuts by the minute only.
        self._max_minutes = MAX_SLICE_MINUTES if request.filters else 1

    async def obtain(
        self,
        span: Span,
        *,
        is_fresh: bool = False,
        gives_up: Callable[[], Awaitable[bool]] | None = None,
    ) -> ReadySpan:
        """Return a span with its files, fetching what the cache lacks, or all if `is_fresh`."""
        files: list[SliceFile] = []
        suggested_minutes, start_us = 1, span.start_us
        while start_us < span.end_us:
            minutes = min((span.end_us - start_us) // MINUTE_US, self._max_minutes)
            file = None if is_fresh else self.folder.find_exact(start_us, minutes)
            if file is None:
                request = replace(self._request, start_us=start_us, minutes=minutes)
                stored = await self._api.fetch(request, self.folder, gives_up)
                file, suggested_minutes = stored.file, stored.suggested_minutes
            files.append(file)
            start_us = file.end_us
        return ReadySpan(span, tuple(files), min(suggested_minutes, self._max_minutes))


Repair: TypeAlias = Callable[[ReadySpan, SliceError], Awaitable[ReadySpan]]
"""Gets files anew that could not be read, or raises the error."""


class SpanReader:
    """Reads a span piece by piece; it holds no piece once that was taken."""

    def __init__(self, ready: ReadySpan, piece_bytes: int, repair: Repair, turns: Turns) -> None:
        self._ready = ready
        self._piece_bytes = piece_bytes
        self._repair: Repair | None = repair
        self._turns = turns
        self._pieces: Generator[bytes, None, None] | None = None
        self._piece = b""
        self._read_bytes = 0
        self._waits_since = 0.0
        self._patience_seconds = WAIT_SECONDS

    async def advance(self) -> bool:
        """Read the next piece, if there is one; files that cannot be read are fetched once."""
        try:
            self._piece = await self._next()
        except SliceError as error:
            if self._repair is None:
                raise
            self._ready, self._repair = await self._repair(self._ready, error), None
            self.close()
            self._piece = await self._next()
        self._read_bytes += len(self._piece)
        return bool(self._piece)

    def take(self) -> bytes:
        """Return the piece that was read."""
        piece, self._piece = self._piece, b""
        return piece

    def begin_wait(self, now: float) -> None:
        """Note that the client has a piece to work on."""
        self._waits_since = now

    def has_waited(self, now: float) -> bool:
        """Say whether the client has been slow for long."""
        return now - self._waits_since >= self._patience_seconds

    def suspend(self) -> None:
        """Close the files until the client goes on."""
        self.close()
        self._patience_seconds *= 2

    def close(self) -> None:
        """Close the files."""
        if self._pieces is not None:
            self._pieces.close()
            self._pieces = None

    async def _next(self) -> bytes:
        if self._pieces is not None:
            return next(self._pieces, b"")
        if self._read_bytes:
            self._piece_bytes = max(self._piece_bytes, RESUMED_PIECE_BYTES)
        self._pieces = self._ready.pieces(self._piece_bytes)
        left, turn = self._read_bytes, LongTurn(self._turns)
        for piece in self._pieces:
            if left < len(piece):
                return piece[left:]
            left -= len(piece)
            await turn.pause()
        return b""


class WaitingReaders:
    """The readers of a process that wait for their clients, those that wait longest first."""

    def __init__(self, few: int = FEW, most: int = MOST_OPEN) -> None:
        self._few = few
        self._most = most
        self._readers: dict[SpanReader, None] = {}
        self._looked_at = 0.0

    @contextmanager
    def waiting(self, reader: SpanReader) -> Iterator[None]:
        """Let a reader wait while the body runs; it may be suspended meanwhile."""
        now = time.monotonic()
        reader.begin_wait(now)
        self._readers[reader] = None
        if len(self._readers) > self._few:
            self._suspend_idle(now)
        if len(self._readers) > self._most:
            self._suspend(next(iter(self._readers)))
        try:
            yield
        finally:
            self._readers.pop(reader, None)
            if not self._readers:
                # A number of its own would outlive the many streams it lies among.
                self._looked_at = 0.0
                # Gives back the room that many had.
                self._readers.clear()

    def _suspend_idle(self, now: float) -> None:
        if now - self._looked_at < WAIT_SECONDS / 4:
            return
        self._looked_at = now
        for reader in [each for each in self._readers if each.has_waited(now)]:
            self._suspend(reader)

    def _suspend(self, reader: SpanReader) -> None:
        del self._readers[reader]
        reader.suspend()
