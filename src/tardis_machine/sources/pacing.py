"""Replay at recorded speed, or a multiple of it."""

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

Item = TypeVar("Item")

STEP_US = 10_000
"""Items due within this much wall time are handed out together."""


class Pacer:
    """Holds items back until their recorded time has come."""

    def __init__(
        self,
        speed: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._speed = speed
        self._now = now
        self._sleep = sleep
        self._origin: tuple[float, int] | None = None

    async def pace(self, items: list[Item], times_us: list[int]) -> AsyncIterator[list[Item]]:
        """Hand out items, whose recorded times are given beside them, when they are due."""
        position = 0
        while position < len(items):
            elapsed = await self._wait_until(times_us[position])
            horizon = elapsed + int(STEP_US * self._speed)
            end = max(bisect_right(times_us, horizon, lo=position), position + 1)
            yield items[position:end]
            position = end

    async def _wait_until(self, time_us: int) -> int:
        """Sleep until a recorded time is due; return the recorded time that now corresponds to."""
        if self._origin is None:
            self._origin = (self._now(), time_us)
        started, first_us = self._origin
        due = started + (time_us - first_us) / self._speed / 1e6
        delay = due - self._now()
        if delay > 0:
            await self._sleep(delay)
        return max(time_us, first_us + int((self._now() - started) * self._speed * 1e6))
