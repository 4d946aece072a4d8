"""What operators read about one bus: changes of state, first errors, summaries."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

from tardis_machine.sinks.reporting.meter import Meter
from tardis_machine.sinks.reporting.status import BusState
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)


class Reporter:
    """Logs one line per change of state, the first error of a kind, then one summary per interval.

    It also remembers the state and the last error for health checks.
    """

    def __init__(
        self, meter: Meter, interval_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._meter = meter
        self._interval = interval_seconds
        self._clock = clock
        self._seen_at: dict[str, float] = {}
        self._pending: Counter[str] = Counter()
        self.state = BusState.CONNECTING
        self.state_since = clock()
        self.last_error: str | None = None
        meter.state(self.state)

    def change(self, state: BusState) -> None:
        """Note the state; log it when it is a new one."""
        if state is self.state:
            return
        previous, self.state = self.state, state
        self.state_since = self._clock()
        self._meter.state(state)
        write = log.warning if state in (BusState.DEGRADED, BusState.SATURATED) else log.info
        write("bus state changed", bus=self._meter.bus, state=state.value, before=previous.value)

    def fail(self, reason: str, detail: str, count: int = 1) -> None:
        """Note a failure; log the first of its kind now and the others in a summary."""
        self.last_error = f"{reason}: {detail}" if detail else reason
        now = self._clock()
        last = self._seen_at.get(reason)
        if last is None or now - last >= self._interval:
            self._seen_at[reason] = now
            log.warning(
                "publishing failed", bus=self._meter.bus, reason=reason, detail=detail, events=count
            )
        else:
            self._pending[reason] += count

    def recover(self) -> None:
        """Note that something was delivered."""
        self.last_error = None

    def summarize(self, numbers: Callable[[], Mapping[str, float]]) -> None:
        """Log what was not logged singly, once per interval."""
        now = self._clock()
        due = [reason for reason in self._pending if now - self._seen_at[reason] >= self._interval]
        if not due:
            return
        reasons = {reason: self._pending.pop(reason) for reason in due}
        self._seen_at.update(dict.fromkeys(due, now))
        log.warning("publishing still failing", bus=self._meter.bus, retries=reasons, **numbers())
