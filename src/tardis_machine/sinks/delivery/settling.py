"""What becomes of a batch: each outcome leads to a settled event, a retry or a parked event."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.base import OVERHEAD_BYTES, Event, bytes_of, fitting
from tardis_machine.sinks.dead_letters.office import DeadLetterOffice, Judged
from tardis_machine.sinks.delivery.feeds import Feeds
from tardis_machine.sinks.delivery.parking.destination import ParkedDestination
from tardis_machine.sinks.delivery.retries import KeyOf, LaneKey
from tardis_machine.sinks.delivery.window import Window
from tardis_machine.sinks.reporting.meter import Meter
from tardis_machine.sinks.reporting.reporter import Reporter
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

RETRYABLE = frozenset(
    (Outcome.TRANSIENT, Outcome.AMBIGUOUS, Outcome.BAD_DESTINATION, Outcome.CLIENT_LOST)
)
ANSWERS = frozenset((Outcome.OK, Outcome.BAD_RECORD))
ROOM_SECONDS = 0.1
"""How often events are tried again that wait for room among the parked ones."""


class Aftermath(NamedTuple):
    """What is left to do after a batch."""

    is_client_lost: bool = False
    is_answered: bool = True
    """The bus took or judged at least one event."""
    pause_seconds: float = 0.0
    """What a lost client asks for before the next attempt."""


ALL_DELIVERED = Aftermath()


class Settler:
    """Applies the outcomes of batches, and keeps what must be sent before all else.

    Args:
        window: what was read and is not settled.
        feeds: where events came from.
        settings: retry limits.
        key_of: which events hold up one another.
        office: where events go that can never be delivered.
        meter: what counts.
        reporter: what is logged.
    """

    def __init__(
        self,
        window: Window,
        feeds: Feeds,
        settings: EventBusSettings,
        key_of: KeyOf,
        office: DeadLetterOffice,
        meter: Meter,
        reporter: Reporter,
    ) -> None:
        self._window = window
        self._feeds = feeds
        self._settings = settings
        self._key_of = key_of
        self._office = office
        self._meter = meter
        self._reporter = reporter
        self._again: list[list[Event]] = []
        """Events to send before all others; the next ones are the last."""
        self.delivered_at: dict[str, float] = {}
        """When each destination took something while keys were in trouble (monotonic seconds)."""

    def next_again(self, max_events: int) -> list[Event]:
        """Take events that must be sent before all others."""
        if not self._again:
            return []
        events = self._again.pop()
        if len(events) > max_events:
            self._again.append(events[max_events:])
            events = events[:max_events]
        return events

    def settle(self, events: list[Event], results: Sequence[Result]) -> Aftermath:
        """Do with each event of a log what its outcome asks."""
        if results.count(OK) == len(events):
            self._deliver(events)
            self._reporter.recover()
            return ALL_DELIVERED
        judged = list(zip(events, results, strict=True))
        self._deliver_some(judged)
        self._count(judged)
        failed, dead = self._split(judged)
        suspects, failed = self._suspects(judged, failed)
        dead += [each for each in judged if _is_bad(each[1]) and id(each[0]) not in suspects]
        self._bury(dead)
        self._send_again(*_halves([event for event, _ in judged if id(event) in suspects]))
        is_answered = any(result.outcome in ANSWERS for result in results)
        if any(result.outcome is Outcome.CLIENT_LOST for result in results):
            self._send_again([event for event, _ in failed])
            pause = max((result.retry_after_seconds for _, result in failed), default=0.0)
            return Aftermath(True, is_answered, pause)
        self._hold(failed)
        return Aftermath(is_answered=is_answered)

    def settle_parked(
        self, parked: ParkedDestination, events: list[Event], results: Sequence[Result]
    ) -> Aftermath:
        """Do with each parked event what its outcome asks; what fails stays where it is."""
        judged = list(zip(events, results, strict=True))
        delivered = [event for event, result in judged if result.outcome is Outcome.OK]
        if delivered:
            self._meter.published(delivered, sum(len(event.data) for event in delivered))
            _settle(delivered, Settled.DELIVERED)
            parked.succeed()
            self._note_delivered(delivered)
        self._count(judged)
        failed, dead = self._split(judged)
        refused = [each for each in judged if _is_bad(each[1])]
        if len(refused) > 1 and any(result.is_shared for _, result in refused):
            parked.max_events = max(1, len(events) // 2)
            parked.recall()
        else:
            parked.max_events = None
            dead += refused
        if dead:
            _settle([event for event, _ in dead], self._office.take(dead))
        is_answered = any(result.outcome in ANSWERS for result in results)
        pause = max((result.retry_after_seconds for _, result in failed), default=0.0)
        if any(result.outcome is Outcome.CLIENT_LOST for result in results):
            parked.recall()
            return Aftermath(True, is_answered, pause)
        if failed:
            parked.fail(pause)
        return Aftermath(is_answered=is_answered)

    def park(self, events: Sequence[Event]) -> None:
        """Put events of the log on disk, per destination, so that the position can move on.

        Events of the same destinations that wait in memory go with them, behind those given.
        """
        by_destination: dict[str, list[Event]] = {}
        for event in events:
            by_destination.setdefault(event.route.destination, []).append(event)
        for destination, group in by_destination.items():
            self._park(destination, [*group, *self._take_others(destination)])

    def divert(self, events: list[Event]) -> list[Event]:
        """Park events that must wait behind parked ones; return the others."""
        free: list[Event] = []
        held: dict[str, list[Event]] = {}
        for event in events:
            _, parked = self._feeds.find(event)
            if parked is None:
                free.append(event)
            else:
                held.setdefault(parked.name, []).append(event)
        for name, group in held.items():
            self._park(name, group)
        return free

    def shed(self, events: list[Event]) -> None:
        """Give up events of the log for newer ones."""
        self._window.forget(events)
        _settle(events, Settled.OVERFLOW)

    def take_from_again(self, is_taken: Callable[[Event], bool]) -> list[Event]:
        """Take certain events out of what is to be sent before all others."""
        taken = [event for events in reversed(self._again) for event in events if is_taken(event)]
        if taken:
            left = ([event for event in each if not is_taken(event)] for each in self._again)
            self._again = [events for events in left if events]
        return taken

    def _take_others(self, destination: str) -> list[Event]:
        def is_taken(event: Event) -> bool:
            return event.route.destination == destination

        return [*self.take_from_again(is_taken), *self._window.retries.take(is_taken)]

    def _park(self, name: str, events: list[Event]) -> None:
        """Park events behind those of a name, as many as there is room for."""
        by_log: dict[int, list[Event]] = {}
        for event in events:
            by_log.setdefault(id(self._feeds.find(event)[0]), []).append(event)
        for group in by_log.values():
            room = self._settings.parked_max_bytes - self._parked_bytes
            count = fitting(group, 0, len(group), room) if room > 0 else 0
            if count < len(group):
                self._refuse_parking(name, group[count:])
            if count:
                self._write_parked(name, group[:count])

    def _refuse_parking(self, name: str, events: list[Event]) -> None:
        """Let events without room wait for a destination that works again; bury the others.

        Those that wait are in memory, and the position waits with them.
        """
        if self._is_recovering(name):
            self._reporter.fail(Reason.PARKED_FULL, name, len(events))
            self._retry(events, ROOM_SECONDS, has_failed=False)
        else:
            full = Result(Outcome.BAD_DESTINATION, Reason.PARKED_FULL, name)
            self._bury([(event, full) for event in events])

    def waits_for_room(self, name: str) -> bool:
        """Say whether events of a destination that works again cannot be parked now."""
        is_full = self._parked_bytes >= self._settings.parked_max_bytes
        return is_full and self._is_recovering(name)

    def _is_recovering(self, name: str) -> bool:
        return any(feed.parked.is_recovering(name) for feed in self._feeds)

    def _write_parked(self, name: str, events: list[Event]) -> None:
        owner, _ = self._feeds.find(events[0])
        try:
            owner.parked.park(name, events)
        except OSError as error:
            # They wait in memory, and the position with them.
            self._reporter.fail("parking", error.strerror or str(error), len(events))
            self._retry(events)
            return
        self._window.forget(events)
        self._window.retries.settle(events)
        _settle(events, Settled.PARKED)

    @property
    def _parked_bytes(self) -> int:
        return sum(feed.parked.bytes for feed in self._feeds if feed.parked)

    def _send_again(self, *lists: list[Event]) -> None:
        """Put lists before everything else, the first of them first."""
        self._again.extend(events for events in reversed(lists) if events)

    def _deliver(self, events: list[Event]) -> None:
        size_bytes = bytes_of(events)
        self._meter.published(events, size_bytes - OVERHEAD_BYTES * len(events))
        self._window.events -= len(events)
        self._window.bytes -= size_bytes
        if self._window.retries:
            self._window.retries.settle(events)
            self._note_delivered(events)
        else:
            self.delivered_at.clear()
        _settle(events, Settled.DELIVERED)

    def _note_delivered(self, events: Iterable[Event]) -> None:
        destinations = {event.route.destination for event in events}
        self.delivered_at.update(dict.fromkeys(destinations, time.monotonic()))

    def _deliver_some(self, judged: Sequence[Judged]) -> None:
        done = [event for event, result in judged if result.outcome is Outcome.OK]
        duplicates = sum(result.is_duplicate for _, result in judged)
        if duplicates:
            self._meter.duplicates(duplicates)
        if done:
            self._deliver(done)

    def _count(self, judged: Sequence[Judged]) -> None:
        failures = [each for each in judged if each[1].outcome in RETRYABLE]
        self._meter.retried(Counter(result.reason for _, result in failures))
        ambiguous = sum(result.outcome is Outcome.AMBIGUOUS for _, result in failures)
        if ambiguous:
            self._meter.redelivered(ambiguous)
        throttled = Counter(
            event.route.destination
            for event, result in failures
            if result.reason == Reason.THROTTLED
        )
        for target, count in throttled.items():
            self._meter.throttled(target, count)
        self._report([result for _, result in judged if result.outcome is not Outcome.OK])

    def _report(self, failures: Sequence[Result]) -> None:
        """Log why events failed, without those that only wait for an earlier one of their key."""
        causes = [result for result in failures if result.detail] or failures
        first = {result.reason: result for result in reversed(causes)}
        counts = Counter(result.reason for result in causes)
        for reason, result in first.items():
            self._reporter.fail(reason, result.detail, counts[reason])

    def _suspects(
        self, judged: Sequence[Judged], failed: list[Judged]
    ) -> tuple[set[int], list[Judged]]:
        """Return which events to send in halves, and the other failed ones.

        Failed events of the same keys go with the suspects, so that nothing overtakes.
        """
        shared = [event for event, result in judged if _is_bad(result) and result.is_shared]
        if len(shared) < 2:
            return set(), failed
        keys = {self._key_of(event) for event in shared}
        bound = [event for event, _ in failed if self._key_of(event) in keys]
        others = [each for each in failed if self._key_of(each[0]) not in keys]
        return {id(event) for event in (*shared, *bound)}, others

    def _split(self, judged: Sequence[Judged]) -> tuple[list[Judged], list[Judged]]:
        """Count an attempt; separate events that may be tried again from those out of tries."""
        again: list[Judged] = []
        dead: list[Judged] = []
        tried: set[tuple[str, str]] = set()
        now = time.time()
        for event, result in judged:
            if result.outcome not in RETRYABLE:
                continue
            # Later events of a key only waited for the first that failed.
            key = (event.route.destination, event.route.key)
            if key not in tried or self._settings.ordering == "none":
                event.attempts += 1
                tried.add(key)
            if self._is_exhausted(event, now):
                detail = f"{result.reason}: {result.detail}"
                spent = Result(Outcome.BAD_RECORD, Reason.RETRIES_EXHAUSTED, detail)
                dead.append((event, spent))
            else:
                again.append((event, result))
        return again, dead

    def _is_exhausted(self, event: Event, now: float) -> bool:
        attempts, age_ms = self._settings.retry_max_attempts, self._settings.retry_max_age_ms
        is_tried = 0 < attempts <= event.attempts
        return is_tried or 0 < age_ms <= (now - event.accepted_at) * 1000

    def _hold(self, failed: Sequence[Judged]) -> None:
        """Park events of destinations that are missing or refused; let the others wait."""
        misdirected = {
            event.route.destination
            for event, result in failed
            if result.outcome is Outcome.BAD_DESTINATION
        }
        self.park([event for event, _ in failed if event.route.destination in misdirected])
        rest = [each for each in failed if each[0].route.destination not in misdirected]
        pause = max((result.retry_after_seconds for _, result in rest), default=0.0)
        self._retry([event for event, _ in rest], pause)

    def _retry(
        self, events: Iterable[Event], at_least: float = 0.0, *, has_failed: bool = True
    ) -> None:
        by_key: dict[LaneKey, list[Event]] = {}
        for event in events:
            by_key.setdefault(self._key_of(event), []).append(event)
        now = time.monotonic()
        for key, group in by_key.items():
            # What was to be sent next stands behind it in the lane now.
            later = self.take_from_again(lambda event, key=key: self._key_of(event) == key)  # type: ignore[misc]
            self._window.retries.hold([*group, *later], now, at_least, has_failed=has_failed)

    def _bury(self, dead: Sequence[Judged]) -> None:
        if dead:
            events = [event for event, _ in dead]
            _settle(events, self._office.take(dead))
            self._window.forget(events)
            self._window.retries.discard_empty()


def _settle(events: Iterable[Event], settled: Settled) -> None:
    for event in events:
        event.place.outcomes[event.line] = settled  # type: ignore[union-attr]


def _is_bad(result: Result) -> bool:
    return result.outcome is Outcome.BAD_RECORD


def _halves(events: list[Event]) -> list[list[Event]]:
    """Split events that were refused together, to find out which one is to blame."""
    middle = len(events) // 2
    return [half for half in (events[:middle], events[middle:]) if half]
