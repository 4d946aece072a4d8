"""The bound of one bus: when its backlog is too large, its oldest or newest events are given up.

Control events are kept: of the oldest events they are parked, of the newest they stand in the note
that takes the place of the range.
"""

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.batches import CONTROL_CASES, cases_of
from tardis_machine.sinks.delivery.feeds import Feeds, LogFeed
from tardis_machine.sinks.delivery.newest import control_events, skip_newest
from tardis_machine.sinks.delivery.settling import Settler
from tardis_machine.sinks.delivery.window import Window
from tardis_machine.sinks.reporting.meter import Meter
from tardis_machine.sinks.storage.in_flight import ChunkInFlight
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.reader import Chunk
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

KEPT_SHARE = 0.9
"""How much of the bound is left after events were given up, so that it is not done for each."""


class Overflow:
    """Keeps the backlog of one bus within its bound.

    Args:
        settings: the bound, over all logs, and what is given up beyond it.
        feeds: the logs.
        window: what was read of them.
        settler: what settles and parks.
        meter: what counts.
    """

    def __init__(
        self,
        settings: EventBusSettings,
        feeds: Feeds,
        window: Window,
        settler: Settler,
        meter: Meter,
    ) -> None:
        self._max_bytes = settings.backlog_max_bytes
        self._drops_newest = settings.drops_newest
        self._feeds = feeds
        self._window = window
        self._settler = settler
        self._meter = meter

    @property
    def backlog_bytes(self) -> int:
        """Return how many bytes wait in all logs."""
        return sum(feed.backlog_bytes for feed in self._feeds)

    @property
    def is_over(self) -> bool:
        """Say whether the backlog is at its bound."""
        return self.backlog_bytes >= self._max_bytes * KEPT_SHARE

    def keep_bound(self) -> None:
        """Give up the oldest or the newest events beyond the bound."""
        surplus = self.backlog_bytes - self._max_bytes
        if surplus <= 0:
            return
        if self._drops_newest:
            self._skip_newest(surplus)
        else:
            self._drop_oldest(surplus)

    def _skip_newest(self, surplus: int) -> None:
        for feed in reversed(list(self._feeds)):
            size_bytes, dropped = skip_newest(feed, surplus)
            if dropped:
                self._report(dropped, size_bytes)
            surplus -= size_bytes
            if surplus <= 0:
                return

    def _drop_oldest(self, surplus: int) -> None:
        surplus += int(self._max_bytes * (1 - KEPT_SHARE))
        for feed in self._feeds:
            given_up = min(surplus, feed.backlog_bytes)
            self._give_up(feed, given_up)
            surplus -= given_up
            if surplus <= 0:
                return

    def _give_up(self, feed: LogFeed, size_bytes: int) -> None:
        """Move the position of a log forward by so many bytes."""
        target = feed.feed.position.offset + size_bytes
        self._empty_window(feed)
        before = feed.feed.in_flight.totals()[Settled.OVERFLOW]

        def settle(chunk: Chunk, place: ChunkInFlight) -> None:
            kept = self._keep_controls(feed, chunk, place)
            # Those that could not be parked wait in memory.
            waiting = [event.line for event in kept if not place.outcomes[event.line]]
            place.settle_rest(Settled.OVERFLOW)
            for line in waiting:
                place.outcomes[line] = Settled.WAITING

        try:
            while feed.feed.offset < target and feed.feed.skip_chunk(settle):
                pass
        finally:
            dropped = feed.feed.in_flight.totals()[Settled.OVERFLOW] - before
            feed.advance()
            self._report(dropped, size_bytes)

    def _report(self, dropped: int, size_bytes: int) -> None:
        self._meter.lost(Reason.OVERFLOW, dropped)
        log.error(
            "events dropped: the backlog is at its bound",
            bus=self._feeds.reader.bus,
            bytes=size_bytes,
            max_bytes=self._max_bytes,
        )

    def _empty_window(self, feed: LogFeed) -> None:
        def is_taken(event: Event) -> bool:
            return event.place is not None and event.place.owner is feed.feed

        waiting = [*self._settler.take_from_again(is_taken), *self._window.take(is_taken)]
        controls = [event for event in waiting if event.series.case in CONTROL_CASES]
        others = [event for event in waiting if event.series.case not in CONTROL_CASES]
        self._settler.park(controls)
        self._settler.shed(others)
        self._meter.dropped(Reason.OVERFLOW, cases_of(others))

    def _keep_controls(self, feed: LogFeed, chunk: Chunk, place: ChunkInFlight) -> list[Event]:
        """Park the control events of a chunk that is given up, and return them."""
        controls = control_events(feed.feed, chunk, place)
        self._window.count(controls)
        self._settler.park(controls)
        return controls
