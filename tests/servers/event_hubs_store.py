"""What an Event Hubs namespace holds: hubs, their partitions, and the events in order."""

import os
import re
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tests.servers import amqp

PARTITION_KEY = b"x-opt-partition-key"
SELECTOR = re.compile(r"x-opt-(offset|sequence-number|enqueued-time) (>=?) '(.*)'")
ENTRY = struct.Struct(">IQ")


@dataclass(frozen=True)
class Event:
    """One stored event, as the sender encoded it."""

    sequence: int
    offset: int
    enqueued_ms: int
    encoded: bytes

    def delivered(self) -> bytes:
        """Return the event as a receiver gets it, with its place in the partition."""
        place = {
            "x-opt-sequence-number": amqp.encode_long(self.sequence),
            "x-opt-offset": amqp.encode_string(str(self.offset)),
            "x-opt-enqueued-time": amqp.encode_timestamp(self.enqueued_ms),
        }
        return amqp.with_annotations(self.encoded, place)


class Partition:
    """An append-only list of events, on disk too when a path is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.events: list[Event] = []
        self.listeners: set[Callable[[], None]] = set()
        self._size_bytes = 0
        for enqueued_ms, encoded in [] if path is None else _read_entries(path):
            self._remember(enqueued_ms, encoded)

    def append(self, messages: list[bytes]) -> None:
        """Store messages and tell the receivers."""
        now_ms = time.time_ns() // 1_000_000
        if self._path is not None:
            entries = [ENTRY.pack(len(message), now_ms) + message for message in messages]
            with self._path.open("ab") as file:
                file.write(b"".join(entries))
        for message in messages:
            self._remember(now_ms, message)
        for listener in list(self.listeners):
            listener()

    def _remember(self, enqueued_ms: int, encoded: bytes) -> None:
        self.events.append(Event(len(self.events), self._size_bytes, enqueued_ms, encoded))
        self._size_bytes += len(encoded)

    def start_of(self, selector: str) -> int:
        """Return the sequence number of the first event that a receiver's filter lets through."""
        found = SELECTOR.search(selector)
        if found is None:
            return 0
        name, operator, value = found.groups()
        if value == "@latest":
            return len(self.events)
        limit = int(value) + (operator == ">")
        places: dict[str, Callable[[Event], int]] = {
            "offset": lambda event: event.offset,
            "sequence-number": lambda event: event.sequence,
            "enqueued-time": lambda event: event.enqueued_ms,
        }
        later = (event.sequence for event in self.events if places[name](event) >= limit)
        return next(later, len(self.events))


@dataclass
class Hub:
    """One event hub."""

    name: str
    partitions: list[Partition]
    created_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    _turn: int = 0

    def store(self, message: bytes, partition_id: str | None) -> None:
        """Store a message, or the members of a batch, in the partition it belongs to."""
        self._partition_for(message, partition_id).append(amqp.batch_members(message))

    def _partition_for(self, message: bytes, partition_id: str | None) -> Partition:
        if partition_id is not None:
            return self.partitions[int(partition_id)]
        key = amqp.annotations(message).get(PARTITION_KEY)
        if key is not None:
            # Not the service's hash, which is not public; only the spread is alike.
            spread = int.from_bytes(sha256(amqp.content(key)).digest()[:8])
            return self.partitions[spread % len(self.partitions)]
        self._turn += 1
        return self.partitions[self._turn % len(self.partitions)]


class Store:
    """All hubs; with a directory they survive the process."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self.hubs: dict[str, Hub] = {}
        for folder in [] if directory is None else sorted(directory.glob("*/")):
            self.hubs[folder.name] = Hub(folder.name, _open_partitions(folder))

    def create_hub(self, name: str, partitions: int) -> None:
        """Add an empty hub."""
        if self._directory is None:
            self.hubs[name] = Hub(name, [Partition() for _ in range(partitions)])
            return
        folder = self._directory / name
        folder.mkdir(parents=True)
        for number in range(partitions):
            _log_path(folder, number).touch()
        self.hubs[name] = Hub(name, _open_partitions(folder))


def _log_path(folder: Path, number: int) -> Path:
    return folder / f"{number:04}.log"


def _open_partitions(folder: Path) -> list[Partition]:
    return [Partition(path) for path in sorted(folder.glob("*.log"))]


def _read_entries(path: Path) -> list[tuple[int, bytes]]:
    data, position, entries = path.read_bytes(), 0, []
    while position + ENTRY.size <= len(data):
        size, enqueued_ms = ENTRY.unpack_from(data, position)
        end = position + ENTRY.size + size
        if end > len(data):
            break
        entries.append((enqueued_ms, data[position + ENTRY.size : end]))
        position = end
    # A writer that was killed in the middle of an entry has told nobody of it.
    os.truncate(path, position)
    return entries
