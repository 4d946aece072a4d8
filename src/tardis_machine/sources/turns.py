"""Who computes next, when many streams of a process want to."""

import asyncio
import time
from collections import deque

AT_ONCE = 4
"""Streams that get their turn in one round of the event loop, so that no round is long."""

TURN_SECONDS = 0.01
"""How long a stream computes on before it waits for its next turn."""


class Turns:
    """Gives streams their turn in the order in which they asked for it.

    Without it every stream computes in every round of the event loop, and a new client, which needs
    several rounds for its first byte, waits that many times for all others.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for a turn, at least until others had the chance to run."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._next_round)
        self._waiting.append(turn)
        await turn

    def _next_round(self) -> None:
        for _ in range(min(self._at_once, len(self._waiting))):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_round)


class LongTurn:
    """Interrupts one stream whenever it has computed for a while."""

    def __init__(self, turns: Turns, seconds: float = TURN_SECONDS) -> None:
        self._turns = turns
        self._seconds = seconds
        self._since = time.monotonic()

    async def pause(self) -> None:
        """Wait for the next turn, if this one has been long enough."""
        if time.monotonic() - self._since >= self._seconds:
            await self._turns.wait()
            self._since = time.monotonic()
