"""Events of destinations that are missing, refused or stuck, each destination in a small log.

The position of the log they came from moves on. While a destination has parked events, new ones of
it, and of the same series under another destination, are parked behind them. They are routed when
they are read, so a corrected setting holds for them too.

    <log>/<reader>.parked/<hash of the destination>/    a chunk log, `position`
"""

import hashlib
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tardis_machine.bronze.cases import AnyCase
from tardis_machine.bronze.routing import Router
from tardis_machine.model.time import Clock
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.backoff import Backoff
from tardis_machine.sinks.delivery.parking.destination import ParkedDestination
from tardis_machine.sinks.storage.positions import Position
from tardis_machine.sinks.storage.writer import Fsync

OPEN_SHARE = 16
"""One in so many of the files that the process may open is the bound of destinations whose files
are open, three each, for one log and bus."""
MIN_OPEN, MAX_OPEN = 8, 1000


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
        self._tried: set[ParkedDestination] = set()
        """Those that were due since positions were moved: no other position can move."""
        self._used: dict[ParkedDestination, None] = {}
        """Those whose files are open, the one that was used last at the end."""
        self._max_open = _max_open()
        self._ended: dict[Path, Position] = {}
        self.bytes = 0
        """How many bytes all parked events need."""
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
        self._use(parked)
        before = parked.bytes
        try:
            parked.append(events)
        finally:
            self.bytes += parked.bytes - before
        for label in parked.labels:
            self._by_label.setdefault(label, parked)

    def due(self, now: float) -> ParkedDestination | None:
        """Return a destination that may be tried now, each in turn."""
        for name, parked in self._by_name.items():
            if parked.ready_at <= now:
                self._by_name[name] = self._by_name.pop(name)
                self._tried.add(parked)
                self._use(parked)
                return parked
        return None

    def advance(self) -> None:
        """Move positions; a destination with nothing left is free again."""
        while self._tried:
            parked = self._tried.pop()
            before = parked.bytes
            parked.advance()
            self.bytes += parked.bytes - before
            if not parked.waiting:
                self._end(parked)

    def close(self) -> None:
        """Close all files."""
        for parked in self:
            parked.close()

    def _use(self, parked: ParkedDestination) -> None:
        """Note that files are needed; where too many are open, those used just before are closed.

        All destinations in trouble get events again and again. Closing what was used longest ago
        would close what is needed next, every time.
        """
        self._used.pop(parked, None)
        self._used[parked] = None
        if len(self._used) > self._max_open:
            # What cannot be flushed stays open, and whoever flushes at intervals says so.
            with suppress(OSError):
                latest = next(islice(reversed(self._used), 1, None))
                latest.rest()
                del self._used[latest]

    def _end(self, parked: ParkedDestination) -> None:
        del self._by_name[parked.name]
        self.bytes -= parked.bytes
        self._by_label = {
            label: each for label, each in self._by_label.items() if each is not parked
        }
        self._close(parked)

    def _close(self, parked: ParkedDestination) -> None:
        self._ended[parked.directory] = parked.feed.position
        self._used.pop(parked, None)
        parked.close()

    def _load(self, path: Path) -> None:
        parked = self._open(path, path.name)
        parked.load()
        if not parked.waiting:
            self._close(parked)
            return
        self._by_name[parked.name] = parked
        self._use(parked)
        self.bytes += parked.bytes
        for label in parked.labels:
            self._by_label.setdefault(label, parked)

    def _open(self, path: Path, name: str) -> ParkedDestination:
        opened = ParkedDestination(
            path,
            name,
            self._router,
            self._make_backoff(),
            self._clock,
            self._quarantine,
            self._fsync,
            self._left_out,
        )
        # Not earlier: one that cannot be opened is counted as it was.
        self._ended.pop(path, None)
        return opened

    def _path(self, name: str) -> Path:
        return self._directory / hashlib.sha256(name.encode()).hexdigest()[:16]


def _max_open() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_unlimited = limit == resource.RLIM_INFINITY
    return MAX_OPEN if is_unlimited else min(MAX_OPEN, max(MIN_OPEN, limit // OPEN_SHARE))
