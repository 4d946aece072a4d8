"""Who computes next, when many streams of a process want to."""

import asyncio
import time
from collections import deque

AT_ONCE = 4
"""Streams that get their turn in one round of the event loop, so that no round is long."""

NEW_SHARE = 4
"""Of so many turns, all but one are for new streams, if there are any."""

NEWEST = 2
"""Which of these turns is for the newest stream of all."""

TURN_SECONDS = 0.01
"""How long a stream computes on before it waits for its next turn."""


class Turns:
    """Gives streams their turn, most of them in the order in which they asked for it.

    Without it every stream computes in every round of the event loop, and a new client, which needs
    several rounds for its first byte, waits that many times for all others. New streams have three
    of four turns, so that a new one waits for few of those that go on. One of the three is for the
    newest of them: who comes after a crowd does not wait for all of it, and the crowd loses little.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._new: deque[asyncio.Future[None]] = deque()
        self._going_on: deque[asyncio.Future[None]] = deque()
        self._given = 0

    async def wait(self, *, is_new: bool = False) -> None:
        """Wait for a turn, at least until others had the chance to run.

        Args:
            is_new: the client has got nothing yet.
        """
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._next_round)
        (self._new if is_new else self._going_on).append(turn)
        await turn

    @property
    def _waiting(self) -> int:
        return len(self._new) + len(self._going_on)

    def _next_round(self) -> None:
        for _ in range(min(self._at_once, self._waiting)):
            turn = self._next_turn()
            if not turn.done():
                turn.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_turn(self) -> asyncio.Future[None]:
        # Small: a number of its own would outlive the many streams it lies among.
        self._given = (self._given + 1) % NEW_SHARE
        if self._given == NEWEST and self._new:
            return self._new.pop()
        queue = self._new or self._going_on if self._given else self._going_on or self._new
        return queue.popleft()


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
