"""Events of destinations that are missing, refused or stuck, each destination in a small log.

The position of the log they came from moves on. While a destination has parked events, new ones of
it, and of the same series under another destination, are parked behind them. They are routed when
they are read, so a corrected setting holds for them too.

    <log>/<reader>.parked/<hash of the destination>/    a chunk log, `position`
"""

import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tardis_machine.bronze.cases import AnyCase
from tardis_machine.bronze.routing import Router
from tardis_machine.model.time import SECOND_US, Clock
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.backoff import Backoff
from tardis_machine.sinks.delivery.events import events_of_records
from tardis_machine.sinks.delivery.feed import Feed
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.records import RecordPacker, RecordReader
from tardis_machine.sinks.storage.chunks import Flags
from tardis_machine.sinks.storage.in_flight import ChunkInFlight
from tardis_machine.sinks.storage.positions import Position
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
    def oldest_at(self) -> float | None:
        """Return when the oldest of them was parked, in seconds since 1970."""
        return self.feed.next_appended_at

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

    def sync(self) -> None:
        """Flush them to disk; any thread may."""
        self._writer.sync()

    def take(self, max_events: int) -> list[Event]:
        """Return the next events; one only while its trouble lasts."""
        limit = 1 if self.backoff.failures else min(max_events, self.max_events or max_events)
        while not self._read:
            found = self.feed.read()
            if found is None:
                return []
            self._read = found
        taken, self._read = self._read[:limit], self._read[limit:]
        return taken

    def succeed(self) -> None:
        """Note that the destination took something."""
        self.backoff.reset()
        self._delivered_at = time.monotonic()

    def fail(self, at_least: float) -> None:
        """Begin the pause before the next attempt; events in memory are read again then."""
        self._read = []
        self.feed.rewind()
        self.ready_at = time.monotonic() + self.backoff.next(at_least, is_parked=True)

    def recall(self) -> None:
        """Read again what was read and is not settled, at once."""
        self._read = []
        self.feed.rewind()

    def advance(self) -> None:
        """Move the position over what is settled, and delete what it has passed."""
        if self.feed.advance():
            delete_before(self.directory, self.feed.position.offset)

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


class Parked:
    """All parked events of one log and one bus.

    Args:
        directory: where they are.
        router: where events go now.
        make_backoff: makes the pauses of a destination.
        clock: what time it is.
        quarantine: where bytes go that cannot be read.
        fsync: when parked events are flushed to disk.
        left_out: counts those that the router leaves out.
    """

    def __init__(
        self,
        directory: Path,
        router: Router,
        make_backoff: Callable[[], Backoff],
        clock: Clock,
        quarantine: Path,
        fsync: Fsync,
        left_out: Counter[AnyCase],
    ) -> None:
        self._directory = directory
        self._router = router
        self._make_backoff = make_backoff
        self._clock = clock
        self._quarantine = quarantine
        self._fsync = fsync
        self._left_out = left_out
        self._by_name: dict[str, ParkedDestination] = {}
        self._by_label: dict[str, ParkedDestination] = {}
        self._ended: dict[Path, Position] = {}
        with suppress(FileNotFoundError):
            for path in sorted(directory.iterdir()):
                self._load(path)

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[ParkedDestination]:
        return iter(self._by_name.values())

    @property
    def events(self) -> int:
        """Return how many events were ever parked."""
        ended = sum(position.events for position in self._ended.values())
        return ended + sum(each.events for each in self)

    @property
    def waiting(self) -> int:
        """Return how many events are parked."""
        return sum(each.waiting for each in self)

    @property
    def bytes(self) -> int:
        """Return how many bytes they need."""
        return sum(each.bytes for each in self)

    def counts(self) -> list[int]:
        """Return how many events were settled in each way, those of ended trouble included."""
        positions = [*self._ended.values(), *(each.feed.position for each in self)]
        return [sum(column) for column in zip(*(each.counts for each in positions), strict=True)]

    def find(self, event: Event) -> ParkedDestination | None:
        """Return behind which parked events an event must wait."""
        return self._by_label.get(event.series.label) or self._by_name.get(event.route.destination)

    def is_recovering(self, name: str) -> bool:
        """Say whether events of a destination are parked that works again, or was not tried yet."""
        parked = self._by_name.get(name)
        return parked is not None and parked.is_recovering

    def park(self, name: str, events: Sequence[Event]) -> None:
        """Park events of one destination; OSError when they cannot be written."""
        parked = self._by_name.get(name)
        if parked is None:
            parked = self._by_name[name] = self._open(self._path(name), name)
        parked.append(events)
        for label in parked.labels:
            self._by_label.setdefault(label, parked)

    def due(self, now: float) -> ParkedDestination | None:
        """Return a destination that may be tried now, each in turn."""
        for name, parked in self._by_name.items():
            if parked.ready_at <= now:
                self._by_name[name] = self._by_name.pop(name)
                return parked
        return None

    def advance(self) -> None:
        """Move positions; a destination with nothing left is free again."""
        for name, parked in list(self._by_name.items()):
            parked.advance()
            if not parked.waiting:
                self._end(name, parked)

    def close(self) -> None:
        """Close all files."""
        for parked in self:
            parked.close()

    def _end(self, name: str, parked: ParkedDestination) -> None:
        del self._by_name[name]
        self._by_label = {
            label: each for label, each in self._by_label.items() if each is not parked
        }
        self._close(parked)

    def _close(self, parked: ParkedDestination) -> None:
        self._ended[parked.directory] = parked.feed.position
        parked.close()

    def _load(self, path: Path) -> None:
        parked = self._open(path, path.name)
        parked.load()
        if not parked.waiting:
            self._close(parked)
            return
        self._by_name[parked.name] = parked
        for label in parked.labels:
            self._by_label.setdefault(label, parked)

    def _open(self, path: Path, name: str) -> ParkedDestination:
        self._ended.pop(path, None)
        return ParkedDestination(
            path,
            name,
            self._router,
            self._make_backoff(),
            self._clock,
            self._quarantine,
            self._fsync,
            self._left_out,
        )

    def _path(self, name: str) -> Path:
        return self._directory / hashlib.sha256(name.encode()).hexdigest()[:16]
