"""All live feeds of a process."""

import asyncio
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp

from tardis_machine.exchanges.spec import Exchange
from tardis_machine.model.requests import Filter
from tardis_machine.sources.context import Timing
from tardis_machine.sources.live.context import LiveContext
from tardis_machine.sources.live.feed import ExchangeFeed
from tardis_machine.sources.live.listeners import FeedKey, FeedListener, Tap
from tardis_machine.sources.live.rest.client import RestClient
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.telemetry.live_metrics import LiveMetrics
from tardis_machine.telemetry.metrics import Metrics


class Subscription:
    """What a listener gets from a feed, until it is closed."""

    def __init__(self, source: "LiveSource", key: FeedKey, listener: FeedListener) -> None:
        self.key = key
        self._source = source
        self._listener = listener

    def close(self) -> None:
        """Get nothing more; closing twice does no harm."""
        self._source.release(self.key, self._listener)


class LiveSource:
    """Opens feeds as they are asked for, and shares them.

    Args:
        settings: of live streams.
        metrics: where to count.
        proxy: HTTP proxy for WebSockets and REST calls.
        timing: time and chance.
        taps: make listeners for everything that a feed brings.
    """

    def __init__(
        self,
        settings: LiveSettings,
        *,
        metrics: LiveMetrics | None = None,
        proxy: str | None = None,
        timing: Timing | None = None,
        taps: Sequence[Tap] = (),
    ) -> None:
        self.settings = settings
        self._metrics = metrics or Metrics().live
        self._proxy = proxy
        self._timing = timing or Timing()
        self._taps = taps
        self._feeds: dict[FeedKey, ExchangeFeed] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        session = aiohttp.ClientSession(auto_decompress=True)
        rest = RestClient(session, self.settings, self._proxy, self._timing, self._metrics)
        self._context = LiveContext(
            self.settings, session, rest, self._proxy, self._metrics, self._timing
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()
        await self._context.session.close()

    def subscribe(
        self,
        exchange: Exchange,
        listener: FeedListener,
        data_types: Sequence[str],
        filters: Sequence[Filter],
        timeout_seconds: float | None = None,
    ) -> Subscription:
        """Bring what filters ask for, mapped to data types, to a listener.

        Raises:
            RequestError: the venue does not stream that.
        """
        is_whole = any(not entry.symbols for entry in filters)
        key = FeedKey(exchange.id, timeout_seconds, is_whole)
        feed = self._feeds.get(key) or self._new_feed(exchange, key)
        feed.attach(listener, data_types, filters)
        self._feeds[key] = feed
        return Subscription(self, key, listener)

    def feed(self, key: FeedKey) -> ExchangeFeed | None:
        """Return a feed that runs."""
        return self._feeds.get(key)

    def refresh_books(self, exchange: str | None = None) -> None:
        """Ask for all books again, of one exchange or of every one, while updates go on."""
        for key, feed in self._feeds.items():
            if exchange is None or key.exchange == exchange:
                feed.refresh_books()

    def release(self, key: FeedKey, listener: FeedListener) -> None:
        """Bring nothing more to a listener; a feed without any ends."""
        feed = self._feeds.get(key)
        if feed is not None:
            feed.detach(listener)
            if feed.is_idle:
                del self._feeds[key]
                feed.close()

    def _new_feed(self, exchange: Exchange, key: FeedKey) -> ExchangeFeed:
        taps = tuple(tap(key) for tap in self._taps)
        return ExchangeFeed(exchange, self._context, self._start, key.timeout_seconds, taps)

    def _start(self, job: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(job, name="live socket")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task
