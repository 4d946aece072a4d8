"""Live messages as an exchange sends them, for one consumer."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeAlias

from tardis_machine.exchanges.spec import Exchange
from tardis_machine.model.control import FeedError
from tardis_machine.model.requests import Filter
from tardis_machine.session.live.stream import MAX_FAILURES, SlowConsumerError, TooManyFailuresError
from tardis_machine.sources.live.listeners import Failure, FeedListener, Loss
from tardis_machine.sources.live.source import LiveSource

LiveMessage: TypeAlias = tuple[int, bytes]
"""The time of arrival in microseconds, and the message."""


class RawStream(FeedListener):
    """Queues messages, and None for every connection that was lost.

    Args:
        source: where messages come from.
        on_error: told about failures.
    """

    wants_messages = True

    def __init__(
        self, source: LiveSource, on_error: Callable[[FeedError], None] | None = None
    ) -> None:
        self._source = source
        self._on_error = on_error
        self._limit = source.settings.stream_queue_max_records
        self._queue: deque[LiveMessage | None] = deque()
        self._wake = asyncio.Event()
        self._failures = 0
        self._is_full = False

    async def messages(
        self, exchange: Exchange, filters: Sequence[Filter], timeout_seconds: float | None
    ) -> AsyncGenerator[LiveMessage | None, None]:
        """Yield messages as they come.

        Raises:
            RequestError: the venue does not stream that.
            TooManyFailuresError: the exchange failed again and again.
            SlowConsumerError: the queue is full.
        """
        subscription = self._source.subscribe(exchange, self, (), filters, timeout_seconds)
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._queue:
                    yield self._queue.popleft()
                if self._is_full:
                    raise SlowConsumerError(
                        f"More than {self._limit} messages waited to be read "
                        "(stream_queue_max_records)."
                    )
                if self._failures >= MAX_FAILURES:
                    raise TooManyFailuresError(exchange.id)
        finally:
            subscription.close()

    def take_message(self, local_us: int, message: bytes) -> None:
        """Queue a message."""
        self._failures = 0
        self._put((local_us, message))

    def failed(self, failure: Failure) -> None:
        """Count a failure, and tell the consumer."""
        self._failures += 1
        if self._on_error is not None:
            self._on_error(failure.record())

    def lost(self, loss: Loss) -> None:
        """Queue a disconnect."""
        self._put(None)

    def _put(self, message: LiveMessage | None) -> None:
        if len(self._queue) < self._limit:
            self._queue.append(message)
        else:
            self._is_full = True
        self._wake.set()
