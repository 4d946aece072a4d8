"""Values that only the REST API of an exchange tells, asked for again and again."""

import asyncio
from collections.abc import Callable

from tardis_machine.exchanges.feeds import FeedConnection, Poll
from tardis_machine.sources.live.errors import ExchangeError
from tardis_machine.sources.live.rest.client import RestClient

LONGEST_INTERVAL_SECONDS = 60.0
LOOK_SECONDS = 1.0


class Poller:
    """Polls for one connection.

    Args:
        plan: what the connection is, which may grow.
        rest: fetches.
        deliver: takes the message made from an answer.
        report: takes failures; polling goes on.
    """

    def __init__(
        self,
        plan: Callable[[], FeedConnection],
        rest: RestClient,
        deliver: Callable[[bytes], None],
        report: Callable[[ExchangeError], None],
    ) -> None:
        self._plan = plan
        self._rest = rest
        self._deliver = deliver
        self._report = report

    async def run(self) -> None:
        """Poll until the connection ends; a venue short of weight is asked less often."""
        interval = 0.0
        while True:
            polls = self._plan().polls
            if not polls:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            base = min(poll.interval_seconds for poll in polls)
            outcomes = [await self._ask(poll) for poll in polls]
            change = base if any(outcomes) else -LOOK_SECONDS
            interval = min(max(interval + change, base), LONGEST_INTERVAL_SECONDS)
            await asyncio.sleep(interval)

    async def _ask(self, poll: Poll) -> bool:
        """Ask for each symbol, some at a time; say whether any had to wait for its turn."""
        slots = asyncio.Semaphore(poll.calls.concurrency)

        async def ask(symbol: str) -> bool:
            async with slots:
                return await self._fetch(poll, symbol)

        return any(await asyncio.gather(*map(ask, poll.symbols)))

    async def _fetch(self, poll: Poll, symbol: str) -> bool:
        try:
            message, has_waited = await self._rest.fetch(poll.calls, symbol)
            messages = [message] if poll.split is None else poll.split(message)
        except ExchangeError as error:
            self._report(error)
            return False
        except ValueError as error:
            url = poll.calls.url(symbol)
            self._report(ExchangeError(f"The answer of {url} cannot be read: {error}"))
            return False
        for each in messages:
            self._deliver(each)
        return has_waited
