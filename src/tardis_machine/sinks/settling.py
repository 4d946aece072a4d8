"""What becomes of a batch: each outcome leads to release, a lane, a dead letter or a repetition."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.dead_letters import DeadLetters, dead_letter_event
from tardis_machine.sinks.fifo import Batch, Entry, cases_of
from tardis_machine.sinks.lanes import KeyOf, LaneKey
from tardis_machine.sinks.meter import Meter
from tardis_machine.sinks.outbox import Outbox
from tardis_machine.sinks.reporter import Reporter
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

THROTTLED = Reason.THROTTLED
"""The reason sinks give when a rate limit refused an event."""

EXHAUSTED = Reason.RETRIES_EXHAUSTED
RETRYABLE = frozenset(
    (Outcome.TRANSIENT, Outcome.AMBIGUOUS, Outcome.BAD_DESTINATION, Outcome.CLIENT_LOST)
)
ANSWERS = frozenset((Outcome.OK, Outcome.BAD_RECORD))

Judged: TypeAlias = tuple[Entry, Result]
Send: TypeAlias = Callable[[Sequence[Event]], Sequence[Result]]


class Aftermath(NamedTuple):
    """What is left to do after a batch."""

    is_client_lost: bool = False
    is_answered: bool = True
    """The bus took or judged at least one event."""
    pause_seconds: float = 0.0
    """What a lost client asks for before the next attempt."""


ALL_DELIVERED = Aftermath()


class DeadLetterOffice:
    """Decides where events go that can never be delivered.

    Args:
        settings: file, target or drop.
        letters: the files.
        target: the destination of dead letters.
        send: hands events to the bus.
        meter: what counts.
    """

    def __init__(
        self,
        settings: EventBusSettings,
        letters: DeadLetters,
        target: str | None,
        send: Send,
        meter: Meter,
    ) -> None:
        self._settings = settings
        self._letters = letters
        self._target = target
        self._send = send
        self._meter = meter

    def take(self, judged: Sequence[Judged]) -> None:
        """Put events away and count them."""
        if self._settings.dead_letter == "drop":
            for (event, _), result in judged:
                self._meter.dropped(result.reason or Reason.BAD_RECORD, cases_of([event]))
            return
        rest = [(event, result) for (event, _), result in judged]
        if self._settings.dead_letter == "target" and self._target is not None:
            rest = [pair for pair in rest if not self._send_to_target(*pair)]
        if rest and not self._write(rest):
            return
        for _, result in judged:
            self._meter.dead(result.reason)

    def _send_to_target(self, event: Event, result: Result) -> bool:
        assert self._target is not None
        (answer,) = self._send([dead_letter_event(event, result, self._target)])
        return answer.outcome is Outcome.OK

    def _write(self, pairs: Sequence[tuple[Event, Result]]) -> bool:
        try:
            self._letters.add(pairs)
        except OSError as error:
            log.error(
                "dead-letter file could not be written; events lost",
                events=len(pairs),
                error=error.strerror,
            )
            self._meter.dropped(Reason.DEAD_LETTER_FAILED, cases_of(event for event, _ in pairs))
            return False
        return True


class Settler:
    """Applies the outcomes of batches to the outbox, and keeps what must be sent before all else.

    Args:
        outbox: where events came from.
        settings: retry limits.
        key_of: which events hold up one another.
        office: where events go that can never be delivered.
        meter: what counts.
        reporter: what is logged.
    """

    def __init__(
        self,
        outbox: Outbox,
        settings: EventBusSettings,
        key_of: KeyOf,
        office: DeadLetterOffice,
        meter: Meter,
        reporter: Reporter,
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._key_of = key_of
        self._office = office
        self._meter = meter
        self._reporter = reporter
        self._again: list[list[Entry]] = []
        """Events to send before all others; the next ones are the last."""

    @property
    def pending(self) -> list[Entry]:
        """Return the events to send before all others, in their order."""
        return [entry for entries in reversed(self._again) for entry in entries]

    def next_again(self, max_events: int) -> Batch | None:
        """Take events that must be sent before all others."""
        if not self._again:
            return None
        entries = self._again.pop()
        if len(entries) > max_events:
            self._again.append(entries[max_events:])
            entries = entries[:max_events]
        return Batch.of(entries)

    def settle(self, batch: Batch, results: Sequence[Result]) -> Aftermath:
        """Do with each event what its outcome asks."""
        if results.count(OK) == len(batch.events):
            self._outbox.release(batch)
            self._reporter.recover()
            return ALL_DELIVERED
        judged = list(zip(batch.entries(), results, strict=True))
        self._release(judged)
        self._count(judged)
        failed, dead = self._split(judged)
        suspects, failed = self._suspects(judged, failed)
        dead += [each for each in judged if _is_bad(each[1]) and id(each[0][0]) not in suspects]
        self._bury(dead)
        self._send_again(*_halves([entry for entry, _ in judged if id(entry[0]) in suspects]))
        is_answered = any(result.outcome in ANSWERS for result in results)
        if any(result.outcome is Outcome.CLIENT_LOST for result in results):
            self._send_again([entry for entry, _ in failed])
            pause = max((result.retry_after_seconds for _, result in failed), default=0.0)
            return Aftermath(True, is_answered, pause)
        self._park(failed)
        return Aftermath(is_answered=is_answered)

    def _send_again(self, *lists: list[Entry]) -> None:
        """Put lists before everything else, the first of them first."""
        self._again.extend(entries for entries in reversed(lists) if entries)

    def _release(self, judged: Sequence[Judged]) -> None:
        done = [entry for entry, result in judged if result.outcome is Outcome.OK]
        duplicates = sum(result.is_duplicate for _, result in judged)
        if duplicates:
            self._meter.duplicates(duplicates)
        if done:
            self._outbox.release(Batch.of(done))

    def _count(self, judged: Sequence[Judged]) -> None:
        failures = [each for each in judged if each[1].outcome in RETRYABLE]
        self._meter.retried(Counter(result.reason for _, result in failures))
        ambiguous = sum(result.outcome is Outcome.AMBIGUOUS for _, result in failures)
        if ambiguous:
            self._meter.redelivered(ambiguous)
        throttled = Counter(
            event.route.destination for (event, _), result in failures if result.reason == THROTTLED
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
        shared = [entry[0] for entry, result in judged if _is_bad(result) and result.is_shared]
        if len(shared) < 2:
            return set(), failed
        keys = {self._key_of(event) for event in shared}
        bound = [each for each in failed if self._key_of(each[0][0]) in keys]
        others = [each for each in failed if self._key_of(each[0][0]) not in keys]
        return {id(event) for event in (*shared, *(entry[0] for entry, _ in bound))}, others

    def _split(self, judged: Sequence[Judged]) -> tuple[list[Judged], list[Judged]]:
        """Count an attempt; separate events that may be tried again from those out of tries."""
        again: list[Judged] = []
        dead: list[Judged] = []
        tried: set[tuple[str, str]] = set()
        now = time.monotonic()
        for (event, ticket), result in judged:
            if result.outcome not in RETRYABLE:
                continue
            # Later events of a key only waited for the first that failed.
            key = (event.route.destination, event.route.key)
            if key not in tried or self._settings.ordering == "none":
                event.attempts += 1
                tried.add(key)
            if self._is_exhausted(event, now):
                spent = Result(Outcome.BAD_RECORD, EXHAUSTED, f"{result.reason}: {result.detail}")
                dead.append(((event, ticket), spent))
            else:
                again.append(((event, ticket), result))
        return again, dead

    def _is_exhausted(self, event: Event, now: float) -> bool:
        attempts, age_ms = self._settings.retry_max_attempts, self._settings.retry_max_age_ms
        is_tried = 0 < attempts <= event.attempts
        return is_tried or 0 < age_ms <= (now - event.enqueued_at) * 1000

    def _park(self, failed: Iterable[Judged]) -> None:
        by_key: dict[LaneKey, list[Judged]] = {}
        for each in failed:
            by_key.setdefault(self._key_of(each[0][0]), []).append(each)
        for key, group in by_key.items():
            self._outbox.park(
                [*(entry for entry, _ in group), *self._taken_from_again(key)],
                max(result.retry_after_seconds for _, result in group),
                is_misdirected=any(
                    result.outcome is Outcome.BAD_DESTINATION for _, result in group
                ),
            )

    def _taken_from_again(self, key: LaneKey) -> list[Entry]:
        """Take the events of a key that were to be sent next: its lane comes first now."""
        taken = [entry for entry in self.pending if self._key_of(entry[0]) == key]
        if taken:
            self._again = [
                kept
                for entries in self._again
                if (kept := [entry for entry in entries if self._key_of(entry[0]) != key])
            ]
        return taken

    def _bury(self, dead: Sequence[Judged]) -> None:
        if dead:
            self._office.take(dead)
            self._outbox.give_up([entry for entry, _ in dead])


def _is_bad(result: Result) -> bool:
    return result.outcome is Outcome.BAD_RECORD


def _halves(entries: list[Entry]) -> list[list[Entry]]:
    """Split events that were refused together, to find out which one is to blame."""
    middle = len(entries) // 2
    return [half for half in (entries[:middle], entries[middle:]) if half]
