"""The logs that one bus reads: what dead writers left first, then those that are being written."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

from tardis_machine.bronze.cases import AnyCase
from tardis_machine.bronze.routing import Router
from tardis_machine.model.time import Clock
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.backoff import Backoff
from tardis_machine.sinks.delivery.encoding import LogEncoding
from tardis_machine.sinks.delivery.events import LogEvents
from tardis_machine.sinks.delivery.feed import Feed
from tardis_machine.sinks.delivery.parking.destination import ParkedDestination
from tardis_machine.sinks.delivery.parking.parked import Parked
from tardis_machine.sinks.storage.directory import FileLock, LogDirectory, LogReader
from tardis_machine.sinks.storage.outcomes import DROPPED, Settled
from tardis_machine.sinks.storage.positions import BEGINNING, COUNTS, Position, PositionFile
from tardis_machine.sinks.storage.reader import last_chunk
from tardis_machine.sinks.storage.skipped import SkippedRanges
from tardis_machine.sinks.storage.writer import Fsync
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

AWAIT_SECONDS = 15.0
"""An orphaned publisher ends within a few seconds; a living server may keep a log for ever."""


class LogFeed:
    """One log with its parked events, read for one bus while the lock is held."""

    def __init__(
        self,
        directory: LogDirectory,
        lock: FileLock,
        feed: Feed,
        parked: Parked,
        *,
        is_own: bool,
    ) -> None:
        self.directory = directory
        self.feed = feed
        self.parked = parked
        self.is_own = is_own
        """Written by the server or job that this publisher belongs to."""
        self._lock = lock
        self._mark: PositionFile | None = None
        self._final: int | None = None
        """How many events a log has whose writer is dead."""
        self._before = [0] * COUNTS if is_own else self._counts()

    @property
    def is_drained(self) -> bool:
        """Say whether nothing is left and nothing will come."""
        # The writer first: what it wrote last is read after that.
        return not self.directory.has_writer and self.is_read and not self.parked.waiting

    @property
    def is_read(self) -> bool:
        """Say whether everything in the log itself is settled."""
        return not self.feed.in_flight and not self.feed.has_more

    @property
    def backlog_bytes(self) -> int:
        """Return how many bytes of the log are not settled."""
        skipped = self.feed.skipped.bytes if self.feed.skipped else 0
        return max(self.end, self.feed.offset) - self.feed.position.offset - skipped

    @property
    def end(self) -> int:
        """Return how many bytes its writer has written."""
        return self._written().offset

    @property
    def waiting(self) -> int:
        """Return how many events of the log are not settled."""
        settled = sum(self.feed.totals())
        return max(self._accepted() - settled, self.feed.in_flight.waiting)

    @property
    def parked_waiting(self) -> int:
        """Return how many events of the log are parked, each counted once."""
        return max(0, self.parked.waiting - self._repeats)

    @property
    def not_written(self) -> int:
        """Return how many events its writer could not write."""
        return self._written().count(Settled.NOT_WRITTEN)

    @property
    def oldest_at(self) -> float | None:
        """Return when the oldest waiting event was accepted, in seconds since 1970."""
        times = [parked.oldest_at for parked in self.parked]
        if self.waiting:
            times.append(self.feed.next_appended_at)
        return min((each for each in times if each is not None), default=None)

    def totals(self) -> list[int]:
        """Count settled events by `Settled`: all of an own log, else since it was taken over."""
        counts = self._counts()
        if self.is_own:
            counts[Settled.NOT_WRITTEN] = self.not_written
        return [now - before for now, before in zip(counts, self._before, strict=True)]

    def advance(self) -> None:
        """Move the positions over what is settled."""
        self.feed.advance()
        if self.parked:
            self.parked.advance()

    def close(self) -> None:
        """Close the files, and let another process read the log."""
        self.advance()
        self.feed.close()
        self.parked.close()
        if self._mark is not None:
            self._mark.close()
        self._lock.release()

    def _accepted(self) -> int:
        """Return how many events are in the log; a dead writer may not have told of the last."""
        if self._final is None and not self.directory.has_writer:
            last = last_chunk(self.directory.path)
            self._final = last.first_event + last.events if last else 0
        return max(self._written().count(Settled.WAITING), self._final or 0)

    def _written(self) -> Position:
        """Return what the writer says; nothing where it never said anything."""
        if self._mark is None:
            try:
                self._mark = PositionFile(self.directory.written_path, is_writable=False)
            except (OSError, ValueError):
                return BEGINNING
        return self._mark.load() or BEGINNING

    def _counts(self) -> list[int]:
        counts = self.feed.totals()
        parked = self.parked.counts() or [0] * COUNTS
        repeats = max(0, self._repeats - self.parked.waiting)
        # Parked events are counted where they are now.
        counts[Settled.PARKED] = 0
        for settled, count in enumerate(parked):
            repeated = min(count, repeats)
            repeats -= repeated
            counts[settled] += count - repeated
        return counts

    @property
    def _repeats(self) -> int:
        """Return how many events were parked once more, after a death before the position moved."""
        return max(0, self.parked.events - self.feed.in_flight.totals()[Settled.PARKED])


class Feeds:
    """All logs of one bus.

    Args:
        reader: the bus and its endpoint.
        router: where its events go.
        make_backoff: makes the pauses of a destination in trouble.
        clock: what time it is.
        quarantine: where bytes go that cannot be read.
        fsync: when parked events are flushed to disk.
    """

    def __init__(
        self,
        reader: LogReader,
        router: Router,
        make_backoff: Callable[[], Backoff],
        clock: Clock,
        quarantine: Path,
        fsync: Fsync,
    ) -> None:
        self.left_out: Counter[AnyCase] = Counter()
        """Events that include and exclude lists leave out, since somebody emptied it."""
        self.reader = reader
        self._router = router
        self._clock = clock
        self._quarantine = quarantine
        self._make_parked = partial(
            Parked,
            router=router,
            make_backoff=make_backoff,
            clock=clock,
            quarantine=quarantine,
            fsync=fsync,
            left_out=self.left_out,
        )
        self._first: list[LogFeed] = []
        """Logs of dead writers found at the start: own logs wait for them."""
        self._others: list[LogFeed] = []
        self._awaited: dict[str, float] = {}
        """Logs of dead writers that another process still reads, and until when own logs wait."""
        self._ended = [0] * COUNTS
        self._released: set[str] = set()
        """Logs with nothing left; another bus may still need their files."""
        self._next = self._next_parked = 0

    def __iter__(self) -> Iterator[LogFeed]:
        return iter((*self._first, *self._others))

    @property
    def has_parked(self) -> bool:
        """Say whether events of any log are parked."""
        return any(feed.parked for feed in self)

    @property
    def is_drained(self) -> bool:
        """Say whether everything that was written is settled."""
        return all(feed.is_read and not feed.parked.waiting for feed in self)

    def has(self, log_id: str) -> bool:
        """Say whether a log is read, or was to its end."""
        return log_id in self._released or any(feed.directory.log_id == log_id for feed in self)

    def add(
        self, directory: LogDirectory, encoding: LogEncoding, *, is_own: bool, comes_first: bool
    ) -> bool:
        """Read a log too; False while another process reads it for this bus."""
        lock = directory.lock_reader(self.reader)
        if lock is None:
            if comes_first:
                self._awaited[directory.log_id] = time.monotonic() + AWAIT_SECONDS
            return False
        comes_first = comes_first or directory.log_id in self._awaited
        self._awaited.pop(directory.log_id, None)
        try:
            added = self._open(directory, lock, encoding, is_own=is_own)
        except BaseException:
            lock.release()
            raise
        (self._first if comes_first else self._others).append(added)
        self._first.sort(key=lambda feed: feed.directory.log_id)
        if not is_own:
            log.info(
                "reading the log of an ended writer", bus=self.reader.bus, log=directory.log_id
            )
        return True

    def _open(
        self, directory: LogDirectory, lock: FileLock, encoding: LogEncoding, *, is_own: bool
    ) -> LogFeed:
        events = LogEvents(self.reader.bus, self._router, encoding, self.left_out)
        feed = Feed(
            directory.path,
            directory.log_id,
            directory.position_path(self.reader),
            events.make,
            self._quarantine,
            SkippedRanges(directory.skipped_path(self.reader)),
        )
        parked = self._make_parked(directory.parked_path(self.reader))
        return LogFeed(directory, lock, feed, parked, is_own=is_own)

    def read(self) -> list[Event] | None:
        """Read one chunk; None when all logs are read to their ends.

        What dead writers left is read log by log, the oldest first: a later one may continue it.
        The others take turns.
        """
        if self._first or self._is_awaiting():
            chunks = (feed.feed.read() for feed in self._next_first())
            return next((events for events in chunks if events is not None), None)
        feeds = self._others
        for step in range(len(feeds)):
            number = (self._next + step) % len(feeds)
            events = feeds[number].feed.read()
            if events is not None:
                self._next = number + 1
                return events
        return None

    def _next_first(self) -> list[LogFeed]:
        """Return the logs of dead writers before the first that another process still reads."""
        if not self._is_awaiting():
            return self._first
        awaited = min(self._awaited)
        return [feed for feed in self._first if feed.directory.log_id < awaited]

    def keep_awaiting(self, log_ids: Collection[str]) -> None:
        """Wait only for logs that are still there."""
        self._awaited = {
            log_id: until for log_id, until in self._awaited.items() if log_id in log_ids
        }

    def _is_awaiting(self) -> bool:
        return bool(self._awaited) and time.monotonic() < max(self._awaited.values())

    def pass_first(self) -> None:
        """Let own logs be read once what dead writers left is settled, but for parked events."""
        settled = [feed for feed in self._first if feed.is_read]
        self._first = [feed for feed in self._first if feed not in settled]
        self._others = [*settled, *self._others]

    def find(self, event: Event) -> tuple[LogFeed, ParkedDestination | None]:
        """Return which log an event came from, and behind which parked events it must wait."""
        assert event.place is not None
        owner = next(feed for feed in self if feed.feed is event.place.owner)
        return owner, owner.parked.find(event)

    def due(self, now: float) -> ParkedDestination | None:
        """Return a destination in trouble that may be tried now, those of each log in turn."""
        feeds = list(self)
        for step in range(len(feeds)):
            number = (self._next_parked + step) % len(feeds)
            if feeds[number].parked and (parked := feeds[number].parked.due(now)):
                self._next_parked = number + 1
                return parked
        return None

    @property
    def next_due_at(self) -> float | None:
        """Return when the first destination in trouble may be tried again."""
        times = (parked.ready_at for feed in self for parked in feed.parked)
        return min(times, default=None)

    def wake(self) -> None:
        """Let every destination in trouble be tried now."""
        for feed in self:
            for parked in feed.parked:
                parked.ready_at = 0.0

    def advance(self) -> None:
        """Move the positions over what is settled."""
        for feed in self:
            feed.advance()

    def release_drained(self) -> None:
        """Let go of logs with nothing left whose writers have ended."""
        for feeds in (self._first, self._others):
            for feed in [each for each in feeds if each.is_drained]:
                self._ended = self._sum(self._ended, feed.totals())
                self._released.add(feed.directory.log_id)
                feed.close()
                feeds.remove(feed)

    def totals(self) -> list[int]:
        """Count settled events by `Settled`."""
        totals = self._ended
        for feed in self:
            totals = self._sum(totals, feed.totals())
        return totals

    @property
    def dropped(self) -> int:
        """Return how many events were lost, those that could not be written included."""
        totals = self.totals()
        return sum(totals[reason] for reason in DROPPED)

    def close(self) -> None:
        """Close all files."""
        for feed in self:
            feed.close()
        self._first, self._others = [], []

    @staticmethod
    def _sum(left: list[int], right: list[int]) -> list[int]:
        return [sum(pair) for pair in zip(left, right, strict=True)]
