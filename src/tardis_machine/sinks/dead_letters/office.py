"""Where events go that can never be delivered: files, a destination of their own, or nowhere."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.dead_letters.files import DeadLetters, dead_letter_event
from tardis_machine.sinks.delivery.batches import cases_of
from tardis_machine.sinks.reporting.meter import Meter
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

Judged: TypeAlias = tuple[Event, Result]
Send: TypeAlias = Callable[[Sequence[Event]], Sequence[Result]]


class DeadLetterOffice:
    """Puts away events that can never be delivered.

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

    def take(self, judged: Sequence[Judged]) -> Settled:
        """Put events away and count them; return how they are settled."""
        if self._settings.dead_letter == "drop":
            for event, result in judged:
                self._meter.dropped(result.reason or Reason.BAD_RECORD, cases_of([event]))
            return Settled.DEAD_LETTER_DROPPED
        rest = list(judged)
        if self._settings.dead_letter == "target" and self._target is not None:
            rest = [pair for pair in rest if not self._send_to_target(*pair)]
        if rest and not self._write(rest):
            return Settled.DEAD_LETTER_FAILED
        for _, result in judged:
            self._meter.dead(result.reason)
        return Settled.DEAD

    def _send_to_target(self, event: Event, result: Result) -> bool:
        assert self._target is not None
        (answer,) = self._send([dead_letter_event(event, result, self._target)])
        return answer.outcome is Outcome.OK

    def _write(self, pairs: Sequence[Judged]) -> bool:
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
