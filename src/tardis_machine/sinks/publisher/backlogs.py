"""Backlogs on disk: what each log holds for each bus, and who will send it. It only reads."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import msgspec

from tardis_machine.model.time import SECOND_US, Clock
from tardis_machine.sinks.delivery.parking.destination import POSITION, ParkedContext
from tardis_machine.sinks.publisher.publisher import skipped_events, waiting_events
from tardis_machine.sinks.storage.directory import LogDirectory, LogReader, find_logs
from tardis_machine.sinks.storage.outcomes import DROPPED, Settled
from tardis_machine.sinks.storage.positions import BEGINNING, Position, read_position
from tardis_machine.sinks.storage.reader import Chunk, ChunkReader, last_chunk
from tardis_machine.sinks.storage.segments import end_of

ATTEMPTS = 3
"""A publisher that runs deletes segments while they are looked at."""
_parse_parked = msgspec.msgpack.Decoder(ParkedContext).decode


class BacklogState(StrEnum):
    """Who sends the events of a log to a bus."""

    ACTIVE = "active"
    """The server or job that writes the log runs."""
    WAITING = "waiting"
    """The next start does: the bus and its endpoint are configured."""
    OTHER_PRODUCER = "other-producer"
    """A start under the producer id of the log does."""
    STRANDED = "stranded"
    """Nobody: no bus that is configured has this endpoint."""


class ParkedBacklog(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Events that wait for one destination."""

    destination: str
    events: int
    bytes: int
    lag_seconds: float
    directory: str


class Backlog(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One log as one bus reads it."""

    bus: str
    endpoint: str
    log: str
    producer_id: str
    state: BacklogState
    position: int
    """Bytes of the log before which everything is settled."""
    end: int
    waiting_events: int
    waiting_bytes: int
    lag_seconds: float
    """Age of the oldest event that waits."""
    settled: dict[str, int]
    """Events by what became of them, so far."""
    parked: tuple[ParkedBacklog, ...] = ()

    @property
    def reader(self) -> LogReader:
        """Return the bus at its endpoint."""
        return LogReader(self.bus, self.endpoint)

    @property
    def events(self) -> int:
        """Return how many events are not settled, parked ones included."""
        return self.waiting_events + self.parked_events

    @property
    def parked_events(self) -> int:
        """Return how many events wait for their destinations."""
        return sum(each.events for each in self.parked)

    @property
    def oldest_seconds(self) -> float:
        """Return the age of the oldest event that is not settled."""
        return max(self.lag_seconds, *(each.lag_seconds for each in self.parked), 0.0)

    @property
    def dropped(self) -> int:
        """Return how many events were lost so far."""
        return sum(self.settled.get(reason.name.lower(), 0) for reason in DROPPED)


def find_backlogs(
    root: Path, readers: Iterable[LogReader], producer_id: str, clock: Clock
) -> Iterator[Backlog]:
    """Yield every log for every bus that is to read it, the oldest log first."""
    configured, now_us = frozenset(readers), clock()
    for directory in find_logs(root):
        for reader in directory.owner.readers:
            for _ in range(ATTEMPTS):
                with suppress(FileNotFoundError):
                    state = _state(directory, reader, configured, producer_id)
                    yield _backlog(directory, reader, state, now_us)
                    break


def _state(
    directory: LogDirectory, reader: LogReader, configured: frozenset[LogReader], producer_id: str
) -> BacklogState:
    if directory.has_writer:
        return BacklogState.ACTIVE
    if directory.owner.producer_id != producer_id:
        return BacklogState.OTHER_PRODUCER
    return BacklogState.WAITING if reader in configured else BacklogState.STRANDED


def _backlog(
    directory: LogDirectory, reader: LogReader, state: BacklogState, now_us: int
) -> Backlog:
    position = read_position(directory.position_path(reader)) or BEGINNING
    end = max(end_of(directory.path), position.offset)
    waiting = max(0, waiting_events(directory, reader))
    parked = (_parked(path, now_us) for path in sorted(directory.parked_path(reader).glob("*")))
    return Backlog(
        bus=reader.bus,
        endpoint=reader.endpoint,
        log=directory.log_id,
        producer_id=directory.owner.producer_id,
        state=state,
        position=position.offset,
        end=end,
        waiting_events=waiting,
        waiting_bytes=end - position.offset if waiting else 0,
        lag_seconds=_lag_seconds(directory.path, position, now_us) if waiting else 0.0,
        settled=_settled(position, skipped_events(directory, reader, position)),
        parked=tuple(each for each in parked if each is not None),
    )


def _settled(position: Position, skipped: int) -> dict[str, int]:
    counts = {each: position.count(each) for each in Settled if each is not Settled.WAITING}
    counts[Settled.OVERFLOW] += skipped
    return {settled.name.lower(): count for settled, count in counts.items() if count}


def _lag_seconds(directory: Path, position: Position, now_us: int) -> float:
    reader = ChunkReader(directory)
    try:
        head = reader.head_at(position.offset)
    finally:
        reader.close()
    return 0.0 if head is None else max(0.0, (now_us - head.appended_us) / SECOND_US)


def _parked(path: Path, now_us: int) -> ParkedBacklog | None:
    """Describe the parked events of a destination; None when none are left."""
    position = read_position(path / POSITION) or BEGINNING
    last = last_chunk(path)
    events = last.first_event + last.events - position.events if last else 0
    if events <= 0:
        return None
    return ParkedBacklog(
        destination=_destination(path, position),
        events=events,
        bytes=end_of(path) - position.offset,
        lag_seconds=_lag_seconds(path, position, now_us),
        directory=str(path),
    )


def _destination(path: Path, position: Position) -> str:
    reader = ChunkReader(path)
    try:
        found = reader.read(position.offset)
    finally:
        reader.close()
    return _parse_parked(found.context).destination if isinstance(found, Chunk) else path.name
