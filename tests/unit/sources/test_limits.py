"""Retries: how often, how long, and what the caller sees in the end."""

import asyncio

import pytest
from structlog.testing import capture_logs

from tardis_machine.model.errors import SourceError, UpstreamStatusError
from tardis_machine.sources.context import ArchiveContext
from tardis_machine.sources.limits import RequestLimiter, Retries, TransientError
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.metrics import Metrics
from tests.unit.sources.recorded import FakeTime


class Flaky:
    """Fails some times, then answers."""

    def __init__(self, failures: int, error: TransientError) -> None:
        self._left = failures
        self._error = error
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self._left:
            self._left -= 1
            raise self._error
        return "data"


def failure(status: int | None = None, retry_after: float | None = None) -> TransientError:
    final = UpstreamStatusError(status, "busy", "http://x") if status else SourceError("gone")
    return TransientError(final, reason=str(status), status=status, retry_after_seconds=retry_after)


def retries(time: FakeTime, **settings: float) -> Retries:
    context = ArchiveContext(
        ArchiveSettings(**{"retry_budget_seconds": 1e9, **settings}),  # type: ignore[arg-type]
        Metrics().archive,
        time.timing,
    )
    return Retries(context)


@pytest.mark.parametrize(
    ("status", "retry_after", "expected"),
    [
        (None, None, [2, 4, 8, 16, 32, 64, 120, 120]),
        (503, None, [2, 4, 8, 16, 32, 64, 120, 120]),
        (429, None, [62, 64, 68, 76, 92, 124, 180, 180]),
        (500, None, [4, 8, 16, 32, 64, 128, 240, 240]),
        (429, 7, [7] * 8),
        (503, 0, [0] * 8),
        (429, 1e6, [300] * 8),
    ],
)
async def test_pauses_grow_to_a_cap_or_follow_retry_after(
    status: int | None, retry_after: float | None, expected: list[float]
) -> None:
    time = FakeTime()
    attempt = Flaky(8, failure(status, retry_after))
    with capture_logs() as logs:
        assert await retries(time).run(attempt, exchange="bitmex") == "data"
    assert time.pauses == expected
    assert [entry["log_level"] for entry in logs] == ["warning"] * 8
    assert logs[2]["attempt"] == 3
    assert logs[2]["exchange"] == "bitmex"


async def test_the_last_attempt_ends_with_the_error_itself() -> None:
    attempt = Flaky(99, failure(503))
    with capture_logs(), pytest.raises(UpstreamStatusError, match="status code: 503"):
        await retries(FakeTime(), max_attempts=5).run(attempt)
    assert attempt.calls == 5


async def test_the_time_budget_ends_the_attempts_too() -> None:
    time = FakeTime()
    attempt = Flaky(99, failure())
    with capture_logs(), pytest.raises(SourceError, match="gone"):
        await retries(time, retry_budget_seconds=20).run(attempt)
    assert time.pauses == [2, 4, 8]


async def test_who_has_another_way_gives_up_after_the_first_attempt() -> None:
    async def has_another_way() -> bool:
        return True

    attempt = Flaky(99, failure())
    with pytest.raises(TransientError):
        await retries(FakeTime()).run(attempt, gives_up=has_another_way)
    assert attempt.calls == 1


async def test_the_limiter_lets_only_so_many_in() -> None:
    limiter = RequestLimiter(3)
    inside, most = 0, 0

    async def work() -> None:
        nonlocal inside, most
        async with limiter:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(work() for _ in range(20)))
    assert most == 3
