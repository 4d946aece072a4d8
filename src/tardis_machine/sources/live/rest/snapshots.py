"""Books that begin with an answer: which symbols wait for theirs."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tardis_machine.exchanges.feeds import FeedConnection, Snapshots
from tardis_machine.sources.live.rest.client import RestClient
from tardis_machine.sources.live.tasks import run_until_first_ends

if TYPE_CHECKING:
    from prometheus_client import Gauge

USUAL_WORKERS = 4
"""For a connection that may grow books later."""

LONGEST_DELAY_SECONDS = 32.0
CALM_SECONDS = 60.0
"""A symbol that needed no snapshot for this long begins without a delay again."""

BETWEEN_REQUESTS_SECONDS = 0.05

QUIET_SECONDS = 10.0
"""A symbol without updates gets its snapshot after this long: its book may not change for hours."""


class SnapshotQueue:
    """Fetches snapshots for one connection, some at a time.

    Args:
        plan: what the connection is, which may grow.
        rest: fetches.
        deliver: takes the message made from an answer.
        send: takes the frame that asks on the socket, where REST has no book.
        gauge: shows how many snapshots wait.
    """

    def __init__(
        self,
        plan: Callable[[], FeedConnection],
        rest: RestClient,
        deliver: Callable[[bytes], None],
        send: Callable[[str], None],
        gauge: "Gauge",
    ) -> None:
        self._gauge = gauge
        self._plan = plan
        self._rest = rest
        self._deliver = deliver
        self._send = send
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._asked: dict[str, int] = {}
        self._last_asked: dict[str, float] = {}
        self._waiting = 0
        self._now = asyncio.get_running_loop().time

    def first(self, channel: str, symbol: str) -> None:
        """Ask for the snapshot of a symbol whose first update came."""
        snapshots = self._plan().snapshots
        if snapshots is not None and channel == snapshots.channel and symbol not in self._asked:
            self._ask(symbol, snapshots.delay_seconds)

    def forget(self, symbol: str) -> None:
        """Let the next first update of a symbol ask again."""
        self._asked.pop(symbol, None)

    def again(self, symbol: str) -> None:
        """Ask for another snapshot; one that is asked for again and again waits ever longer."""
        if self._now() - self._last_asked.get(symbol, 0.0) > CALM_SECONDS:
            self._asked[symbol] = 1
        repeats = self._asked.get(symbol, 1) - 1
        self._ask(symbol, min(2.0 ** (repeats - 1), LONGEST_DELAY_SECONDS) if repeats else 0.0)

    async def run(self) -> None:
        """Fetch until the connection ends.

        Raises:
            ExchangeError: the exchange refuses a snapshot.
        """
        snapshots = self._plan().snapshots
        calls = None if snapshots is None else snapshots.calls
        count = USUAL_WORKERS if calls is None else calls.concurrency
        workers = [self._work() for _ in range(count)]
        try:
            await run_until_first_ends(self._ask_for_quiet_ones(), *workers)
        finally:
            self._gauge.dec(self._waiting)

    def _ask(self, symbol: str, delay_seconds: float) -> None:
        self._gauge.inc()
        self._waiting += 1
        self._asked[symbol] = self._asked.get(symbol, 0) + 1
        self._last_asked[symbol] = self._now() + delay_seconds
        if delay_seconds > 0:
            asyncio.get_running_loop().call_later(delay_seconds, self._queue.put_nowait, symbol)
        else:
            self._queue.put_nowait(symbol)

    async def _work(self) -> None:
        while True:
            symbol = await self._queue.get()
            snapshots = self._plan().snapshots
            assert snapshots is not None
            await self._fetch(snapshots, symbol)
            self._gauge.dec()
            self._waiting -= 1

    async def _fetch(self, snapshots: Snapshots, symbol: str) -> None:
        if snapshots.request is not None:
            self._send(snapshots.request(symbol))
            await asyncio.sleep(BETWEEN_REQUESTS_SECONDS)
        elif snapshots.calls is not None:
            message, _ = await self._rest.fetch(snapshots.calls, symbol)
            self._deliver(message)

    async def _ask_for_quiet_ones(self) -> None:
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            for entry in self._plan().filters:
                for symbol in entry.symbols or ():
                    self.first(entry.channel, symbol)
