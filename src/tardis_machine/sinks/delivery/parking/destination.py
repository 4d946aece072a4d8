"""The parked events of one destination: a small chunk log, and when it is tried again."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tardis_machine.bronze.cases import AnyCase
from tardis_machine.bronze.routing import Router
from tardis_machine.model.time import SECOND_US, Clock
from tardis_machine.sinks.base import Event, bytes_of, fitting
from tardis_machine.sinks.delivery.backoff import Backoff
from tardis_machine.sinks.delivery.events import events_of_records
from tardis_machine.sinks.delivery.feed import Feed
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.records import RecordPacker, RecordReader
from tardis_machine.sinks.storage.chunks import Flags
from tardis_machine.sinks.storage.in_flight import ChunkInFlight
from tardis_machine.sinks.storage.reader import BadBytes, Chunk, ChunkReader
from tardis_machine.sinks.storage.segments import delete_all, delete_before
from tardis_machine.sinks.storage.writer import ChunkWriter, Fsync

POSITION = "position"
SEGMENT_BYTES = 1_048_576
CHUNK_EVENTS = 1000
RECOVERING_SECONDS = 60.0
"""So long after it took an event a destination counts as one that works again."""


class ParkedContext(msgspec.Struct, frozen=True):
    """What is known of the events of a parked chunk without reading them."""

    destination: str
    labels: tuple[str, ...]
    """Of their series."""
    accepted_us: int
    """When the first of them was accepted."""


_pack = msgspec.msgpack.Encoder().encode
_parse = msgspec.msgpack.Decoder(ParkedContext).decode


class ParkedDestination:
    """The parked events of one destination."""

    def __init__(
        self,
        directory: Path,
        name: str,
        router: Router,
        backoff: Backoff,
        clock: Clock,
        quarantine: Path,
        fsync: Fsync,
        left_out: Counter[AnyCase],
    ) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.name = name
        self.backoff = backoff
        self.ready_at = 0.0
        self._delivered_at = -math.inf
        self.labels: set[str] = set()
        self.max_events: int | None = None
        """At most so many are sent at once, after a refusal that names no culprit."""
        self._router = router
        self._left_out = left_out
        self._packer = RecordPacker(Headers({}), names_series=True)
        self._records = RecordReader(names_series=True)
        self.directory = directory
        self.feed = Feed(directory, directory.name, directory / POSITION, self._make, quarantine)
        self._writer = ChunkWriter(directory, clock, fsync, SEGMENT_BYTES, after=self.feed.position)
        self._read: list[Event] = []
        self.oldest_at = self.feed.next_appended_at
        """When the oldest of them was parked, in seconds since 1970."""

    @property
    def events(self) -> int:
        """Return how many events were ever parked."""
        return self._writer.events

    @property
    def waiting(self) -> int:
        """Return how many events are parked."""
        return self.events - self.feed.position.events

    @property
    def bytes(self) -> int:
        """Return how many bytes they need."""
        return self._writer.end - self.feed.position.offset

    @property
    def is_recovering(self) -> bool:
        """Say whether the destination took something lately, or was not tried yet."""
        is_tried = self.backoff.failures > 0
        return not is_tried or time.monotonic() - self._delivered_at < RECOVERING_SECONDS

    def append(self, events: Sequence[Event]) -> None:
        """Park events; OSError when they cannot be written."""
        for start in range(0, len(events), CHUNK_EVENTS):
            part = events[start : start + CHUNK_EVENTS]
            labels = {event.series.label for event in part}
            accepted_us = int(min(event.accepted_at for event in part) * SECOND_US)
            context = ParkedContext(self.name, tuple(labels), accepted_us)
            body = self._packer.pack(part)
            self._writer.append(_pack(context), body, len(part), Flags.RECORDS)
            self.labels |= labels
            if self.oldest_at is None:
                self.oldest_at = self.feed.next_appended_at

    def sync(self) -> None:
        """Flush them to disk; any thread may."""
        self._writer.sync()

    def take(self, max_events: int, max_bytes: int) -> list[Event]:
        """Return the next events, once those before are settled; one while its trouble lasts."""
        if not self._read:
            self.feed.rewind()
        is_probe = self.backoff.failures > 0
        limit = 1 if is_probe else min(max_events, self.max_events or max_events)
        size_bytes = bytes_of(self._read)
        while len(self._read) < limit and size_bytes < max_bytes:
            found = self.feed.read()
            if found is None:
                break
            self._read += found
            size_bytes += bytes_of(found)
        count = fitting(self._read, 0, limit, max_bytes)
        taken = self._read[:count]
        # The rest is read again after a probe: there may be many destinations in trouble.
        self._read = [] if is_probe else self._read[count:]
        return taken

    def succeed(self) -> None:
        """Note that the destination took something."""
        self.backoff.reset()
        self._delivered_at = time.monotonic()

    def fail(self, at_least: float) -> None:
        """Begin the pause before the next attempt; events in memory are read again then."""
        self._read = []
        self.ready_at = time.monotonic() + self.backoff.next(at_least, is_parked=True)

    def recall(self) -> None:
        """Read again what was read and is not settled, at once."""
        self._read = []

    def advance(self) -> None:
        """Move the position over what is settled, and delete what it has passed."""
        if self.feed.advance():
            delete_before(self.directory, self.feed.position.offset)
            self.oldest_at = self.feed.next_appended_at

    def rest(self) -> None:
        """Close the files until they are needed; OSError when they cannot be flushed."""
        self._writer.rest()
        self.feed.close()

    def load(self) -> None:
        """Learn which series have events here."""
        reader = ChunkReader(self.directory)
        offset = self.feed.position.offset
        try:
            while (found := reader.read(offset)) is not None:
                if not isinstance(found, BadBytes):
                    self._learn(found)
                offset = found.end
        finally:
            reader.close()

    def _learn(self, chunk: Chunk) -> None:
        # One that cannot be decoded is set aside when it is read.
        with suppress(msgspec.DecodeError):
            context = _parse(chunk.context)
            self.name = context.destination
            self.labels.update(context.labels)

    def close(self) -> None:
        """Close the files; when nothing is left, only the position stays, with its counts."""
        self._writer.close()
        self.feed.close()
        if not self.waiting:
            delete_all(self.directory)

    def _make(self, chunk: Chunk, place: ChunkInFlight) -> list[Event]:
        accepted_at = _parse(chunk.context).accepted_us / SECOND_US
        events = events_of_records(
            self._records, chunk.body, place, accepted_at, self._router, self._left_out
        )
        for event in events:
            event.attempts = self.backoff.failures
        return events
