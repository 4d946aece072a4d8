"""What one client of a live stream gets, in order, through a bounded queue."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial

from msgspec import UNSET, UnsetType

from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.errors import SourceError, TardisMachineError
from tardis_machine.session.live.backlog import ClientQueue
from tardis_machine.session.live.chunks import LiveChunk
from tardis_machine.session.live.plan import StreamEntry, StreamPlan
from tardis_machine.session.live.views import LiveViews, ViewKey
from tardis_machine.sources.live.listeners import Failure, Loss

MAX_FAILURES = 50
"""Failures of an exchange without data in between after which a stream ends."""


class TooManyFailuresError(SourceError):
    """An exchange failed again and again."""

    def __init__(self, exchange: str) -> None:
        # Existing clients know this text, with its two blanks.
        super().__init__(f"Too many subsequent errors when connecting to  {exchange} WS API")


class SlowConsumerError(TardisMachineError):
    """Whoever reads a live stream is slower than the market."""


class LiveClient:
    """Collects the records of all entries of a request, in the order of arrival.

    Args:
        plan: the request.
        views: where records come from.
        on_cut: called when the reader is cut off; it may be busy with what it got and not notice.
    """

    def __init__(
        self, plan: StreamPlan, views: LiveViews, on_cut: Callable[[], object] = lambda: None
    ) -> None:
        self._plan = plan
        self._views = views
        self._on_cut = on_cut
        self._queue = ClientQueue(views.backlog, self._overflow)
        self._limit = views.source.settings.stream_queue_max_records
        self._wake = asyncio.Event()
        self._error: TardisMachineError | None = None
        self._failures: dict[str, int] = {}
        self._last_failure: Failure | None = None
        self._is_shown = False
        self._joined: list[tuple[EntryMember, ViewKey]] = []

    async def chunks(self) -> AsyncGenerator[list[LiveChunk], None]:
        """Yield what came since the last time; without entries end at once.

        Raises:
            RequestError: a venue does not stream what was asked for.
            TooManyFailuresError: an exchange failed again and again.
            SlowConsumerError: the queue is full.
        """
        try:
            self._join()
            while self._joined:
                await self._wake.wait()
                self._wake.clear()
                while ready := self._queue.take():
                    yield ready
                if self._error is not None:
                    raise self._error
        finally:
            self._leave()
            self._queue.clear()

    def take(self, exchange: str, chunk: LiveChunk) -> None:
        """Queue records; they end a series of failures."""
        self._check_failures(exchange)
        self._failures[exchange] = 0
        self._put(chunk)

    def fail(self, failure: Failure, *, is_shown: bool) -> None:
        """Count a failure, once for all entries, and show it to who wants to see it."""
        exchange = failure.exchange
        if failure is not self._last_failure:
            self._failures[exchange] = self._failures.get(exchange, 0) + 1
            self._last_failure, self._is_shown = failure, False
        if is_shown and not self._is_shown:
            self._is_shown = True
            record = FeedError(
                exchange=exchange,
                local_timestamp=failure.local_timestamp,
                details=failure.details,
                subsequent_errors_count=self._failures[exchange],
            )
            self._put(LiveChunk([record]))

    def lose(self, loss: Loss, symbols: list[str] | UnsetType) -> None:
        """Show a disconnect, if the client wants to see any."""
        self._check_failures(loss.exchange)
        if self._plan.output.passes(loss.exchange, "disconnect"):
            record = Disconnect(
                exchange=loss.exchange, local_timestamp=loss.local_timestamp, symbols=symbols
            )
            self._put(LiveChunk([record]))

    def _join(self) -> None:
        for entry in self._plan.entries:
            member = EntryMember(self, entry)
            classes = self._plan.output.classes(entry.exchange.id)
            self._joined.append((member, self._views.join(member, entry, classes)))

    def _leave(self) -> None:
        for member, key in self._joined:
            self._views.leave(member, key)

    def _check_failures(self, exchange: str) -> None:
        if self._failures.get(exchange, 0) >= MAX_FAILURES:
            self._end(TooManyFailuresError(exchange))

    def _put(self, chunk: LiveChunk) -> None:
        if self._error is not None:
            return
        self._queue.put(chunk)
        self._wake.set()
        queued = self._queue.records
        if queued > self._limit:
            self._queue.clear()
            self._end(
                SlowConsumerError(
                    f"{queued} records wait to be read, more than "
                    f"stream-queue-max-records ({self._limit})."
                )
            )

    def _overflow(self) -> None:
        self._end(
            SlowConsumerError(
                "What waits for slow clients of live streams is more than "
                f"stream-queue-max-bytes ({self._views.backlog.max_bytes}), for this one most."
            )
        )

    def _end(self, error: TardisMachineError) -> None:
        if self._error is not None:
            return
        self._error = error
        self._wake.set()
        if isinstance(error, SlowConsumerError):
            self._on_cut()


class EntryMember:
    """An entry of a client's request, as a view knows it."""

    def __init__(self, client: LiveClient, entry: StreamEntry) -> None:
        self._client = client
        self._entry = entry
        self.take = partial(client.take, entry.exchange.id)
        self.failed = partial(client.fail, is_shown=entry.with_errors)

    def lost(self, loss: Loss) -> None:
        """Name the symbols of the entry that are lost, as the client wrote them."""
        requested = self._entry.requested
        if requested is None:
            self._client.lose(loss, UNSET)
            return
        concerned = [symbol for symbol in requested if loss.concerns(symbol)]
        if concerned:
            self._client.lose(loss, concerned)
