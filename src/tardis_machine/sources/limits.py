"""How many requests run at once, and how long a failing one is repeated."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from types import TracebackType
from typing import Any, TypeVar

from tardis_machine.model.errors import SourceError
from tardis_machine.model.time import SECOND_US
from tardis_machine.sources.context import ArchiveContext
from tardis_machine.telemetry.loggers import get_logger

T = TypeVar("T")

_TOO_MANY_REQUESTS_SECONDS = 60
_MAX_JITTER_SECONDS = 0.5

log = get_logger(__name__)


class TransientError(SourceError):
    """One attempt failed in a way that may pass; `final` is the error if it does not."""

    retryable = True

    def __init__(
        self,
        final: SourceError,
        *,
        reason: str,
        status: int | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        self.final = final
        self.reason = reason
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        super().__init__(str(final))


class RequestLimiter:
    """Bounds the requests in flight; shared by all replays of a process."""

    def __init__(self, max_in_flight: int) -> None:
        self._slots = asyncio.Semaphore(max_in_flight)

    async def __aenter__(self) -> None:
        await self._slots.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._slots.release()


class Retries:
    """Repeats what failed for now, ever more slowly, within the caps of the settings."""

    def __init__(self, context: ArchiveContext) -> None:
        self._settings = context.settings
        self._metrics = context.metrics
        self._timing = context.timing

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        gives_up: Callable[[], Awaitable[bool]] | None = None,
        **fields: Any,
    ) -> T:
        """Return the first success of `attempt`, or raise what is final.

        Args:
            attempt: one try; raises `TransientError` when another may succeed.
            gives_up: asked before the first pause; if it says yes, the `TransientError` is raised.
            fields: what the warnings are about.
        """
        deadline_us = self._timing.clock() + self._settings.retry_budget_seconds * SECOND_US
        for number in count(1):
            try:
                return await attempt()
            except TransientError as failure:
                if number == 1 and gives_up and await gives_up():
                    raise
                pause_seconds = self.pause_seconds(number, failure)
                ends_us = self._timing.clock() + pause_seconds * SECOND_US
                if number >= self._settings.max_attempts or ends_us > deadline_us:
                    raise failure.final from failure.__cause__
                self._metrics.retries.labels(failure.reason).inc()
                log.warning(
                    "data API request failed; retrying",
                    attempt=number,
                    max_attempts=self._settings.max_attempts,
                    reason=failure.reason,
                    pause_seconds=round(pause_seconds, 1),
                    error=str(failure),
                    **fields,
                )
            await self._timing.sleep(pause_seconds)
        raise AssertionError("unreachable: the loop counts without end")

    def pause_seconds(self, attempt: int, failure: TransientError) -> float:
        """Return how long to wait after the given attempt."""
        jitter_seconds = self._timing.random() * _MAX_JITTER_SECONDS
        if failure.retry_after_seconds is not None:
            asked = min(failure.retry_after_seconds, self._settings.retry_after_max_seconds)
            return asked + jitter_seconds
        # Beyond 2^16 s every cap is reached, and the power must not overflow.
        growing = min(2.0 ** min(attempt, 16), self._settings.retry_delay_max_seconds)
        pause_seconds = growing + jitter_seconds
        if failure.status == 429:
            pause_seconds += _TOO_MANY_REQUESTS_SECONDS
        return pause_seconds * 2 if failure.status == 500 else pause_seconds
