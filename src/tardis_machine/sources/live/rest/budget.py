"""The weight of requests that a venue accepts per minute, shared by all its feeds."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tardis_machine.exchanges.feeds import WeightBudget
from tardis_machine.model.time import MINUTE_US, SECOND_US
from tardis_machine.sources.context import Timing


class Budget:
    """Makes requests wait for the next minute when this one's weight is used up.

    Args:
        declared: where the venue tells its limit and what was used.
        get: fetches the limit.
        timing: time and how to wait.
    """

    def __init__(
        self, declared: WeightBudget, get: Callable[[str], Awaitable[bytes]], timing: Timing
    ) -> None:
        self.used = 0
        self._declared = declared
        self._get = get
        self._timing = timing
        self._limit = declared.limit
        self._minute = 0
        self._blocked_until_us = 0
        self._learning = asyncio.Lock()

    async def take(self, weight: int, reserve: int) -> bool:
        """Wait until a request fits; say whether it had to wait."""
        limit = await self._learned_limit()
        has_waited = False
        while (wait_us := self._wait_us(limit, weight, reserve)) > 0:
            has_waited = True
            await self._timing.sleep(wait_us / SECOND_US)
        self.used += weight
        return has_waited

    def note(self, headers: Mapping[str, str]) -> None:
        """Take what the venue says was used."""
        text = headers.get(self._declared.used_header, "")
        if text.isdecimal():
            self._turn_minute()
            self.used = int(text)

    def block(self, seconds: float) -> None:
        """Let no request out for a while: the venue said so."""
        until_us = self._timing.clock() + int(seconds * SECOND_US)
        self._blocked_until_us = max(self._blocked_until_us, until_us)

    async def _learned_limit(self) -> int:
        async with self._learning:
            if self._limit is None:
                self._limit = self._declared.read_limit(await self._get(self._declared.limit_url))
        return self._limit

    def _wait_us(self, limit: int, weight: int, reserve: int) -> int:
        now_us = self._timing.clock()
        if now_us < self._blocked_until_us:
            return self._blocked_until_us - now_us
        self._turn_minute()
        # A limit below one request and its reserve must not stop everything for ever.
        if self.used == 0 or self.used + weight <= limit - reserve:
            return 0
        return MINUTE_US - now_us % MINUTE_US + SECOND_US

    def _turn_minute(self) -> None:
        minute = self._timing.clock() // MINUTE_US
        if minute != self._minute:
            self._minute = minute
            self.used = 0
