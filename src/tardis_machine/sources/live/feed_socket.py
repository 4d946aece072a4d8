"""One socket of a feed over its whole life: connections that follow each other."""

import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tardis_machine.exchanges.feeds import Feed, FeedConnection, without
from tardis_machine.exchanges.spec import Exchange, Mapper
from tardis_machine.exchanges.versions import live_filters
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text
from tardis_machine.sources.live.addresses import reachable
from tardis_machine.sources.live.attempt import Attempt
from tardis_machine.sources.live.backoff import Backoff
from tardis_machine.sources.live.connection import open_connection
from tardis_machine.sources.live.context import LiveContext
from tardis_machine.sources.live.errors import ExchangeError, StaleConnectionError
from tardis_machine.sources.live.listeners import Failure, FeedListener, Loss
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)


class FeedSocket:
    """Keeps a connection for some filters, and tells listeners what it brings.

    Args:
        exchange: whose feed it is.
        feed: what the venue wants.
        plan: what the connection brings at first.
        context: what all feeds share.
        timeout_seconds: how long a client lets it be without data; 0 for ever, None when none said.
        joined: the mappers that all sockets of the feed share, by data type.
    """

    def __init__(
        self,
        exchange: Exchange,
        feed: Feed,
        plan: FeedConnection,
        context: LiveContext,
        timeout_seconds: float | None,
        joined: dict[str, Mapper],
    ) -> None:
        self.exchange = exchange
        self.feed = feed
        self.plan = plan
        self.context = context
        self.timeout_seconds = timeout_seconds
        self.joined = joined
        self.data_types: dict[str, None] = {}
        """In the order in which they were asked for."""
        self.listeners: dict[FeedListener, None] = {}
        self.message_listeners: tuple[FeedListener, ...] = ()
        self.failures = 0
        self.attempt: Attempt | None = None
        self._backoff = Backoff(context.timing.random)
        self._local = ms_text(context.timing.clock() // 1000)

    # What is asked for

    def plan_with(self, filters: Sequence[Filter]) -> FeedConnection | None:
        """Return the plan that brings further filters too; None when this socket cannot."""
        plans = self.feed.connections([*self.plan.filters, *filters], self.context.access())
        return plans[0] if len(plans) == 1 and plans[0].url == self.plan.url else None

    def plan_anew(self) -> FeedConnection:
        """Return the plan of now: logins are signed with the time."""
        self.plan = self.plan_with(()) or self.plan
        return self.plan

    def grow(self, plan: FeedConnection, added: FeedConnection) -> None:
        """Follow a plan that brings more, and subscribe what was added."""
        self.plan = plan
        if self.attempt is not None:
            # They may have been left before, and messages of then may have come since.
            self.attempt.forget(added.filters)
            frames = plan.frames if self.feed.replaces else added.frames
            self.attempt.send_later(frames, added.pause_seconds)

    def shrink(self, dropped: Sequence[Filter]) -> None:
        """Leave filters that nobody wants any more, if the venue lets us."""
        access, feed = self.context.access(), self.feed
        plans = feed.connections(without(self.plan.filters, dropped), access)
        can_leave = feed.replaces or feed.unsubscribe is not None
        if not can_leave or len(plans) != 1 or plans[0].url != self.plan.url:
            return
        self.leave(dropped)
        self.plan = plans[0]
        if self.attempt is not None:
            leave = feed.unsubscribe
            frames = self.plan.frames if leave is None else leave(dropped, access)
            self.attempt.send_later(frames, 0.0)
            self.attempt.forget(dropped)

    def add_types(self, data_types: Iterable[str]) -> None:
        """Map to further data types."""
        self.data_types |= dict.fromkeys(data_types)
        if self.attempt is not None:
            self.attempt.receiver.add_types(self.data_types)

    def add_listener(self, listener: FeedListener) -> None:
        """Tell one more listener."""
        self.listeners[listener] = None
        self._note_listeners()

    def remove_listener(self, listener: FeedListener) -> None:
        """Tell a listener no longer."""
        self.listeners.pop(listener, None)
        self._note_listeners()

    def _note_listeners(self) -> None:
        self.message_listeners = tuple(each for each in self.listeners if each.wants_messages)

    # What happens

    async def run(self) -> None:
        """Connect again and again, until cancelled."""
        while True:
            started = time.monotonic()
            try:
                delay = await self._live_once(started)
            except Exception as error:
                # A fault of ours must not end the feed, nor the feeds of others.
                log.exception("live feed failed unexpectedly", exchange=self.exchange.id)
                delay = self._end("internal", error, time.monotonic() - started)
            await self.context.timing.sleep(delay)

    async def _live_once(self, started: float) -> float:
        """Connect and receive until the connection ends; return how long to wait then."""
        try:
            url = await self._address()
            context, headers = self.context, self.plan.headers
            opened = open_connection(context.session, url, context.proxy, headers)
            async with opened as connection:
                self.attempt = Attempt(self, connection)
                log.info("live feed connected", exchange=self.exchange.id, url=self.plan.url)
                try:
                    reason, error = await self.attempt.run()
                    # Told before the connection is closed, which may take a moment.
                    return self._end(reason, error, time.monotonic() - started)
                finally:
                    self.attempt.count()
                    self.attempt = None
        except ExchangeError as error:
            return self._end("refused", error, time.monotonic() - started)

    async def _address(self) -> str:
        """Return where to connect; some exchanges tell it anew every time."""
        call = self.plan.address
        url = self.plan.url if call is None else await self.context.rest.ask_address(call)
        return reachable(url, self.context.settings.exchange_gateway)

    def _end(self, reason: str, error: Exception | None, lived_seconds: float) -> float:
        """Tell listeners that the connection ended; return the delay before the next one."""
        name = self.exchange.id
        self.context.metrics.reconnects.labels(name, reason).inc()
        if error is not None and not isinstance(error, StaleConnectionError):
            self.fail(error)
            delay = self._backoff.after_failure(lived_seconds, getattr(error, "wait_seconds", None))
        else:
            delay = self._backoff.after_close(lived_seconds)
        details = str(error) if error is not None else ""
        log.warning(
            "live feed lost", exchange=name, reason=reason, details=details, retry_seconds=delay
        )
        self.lose(self._loss_of(self.plan.filters, reason))
        return delay

    def leave(self, dropped: Sequence[Filter]) -> None:
        """Tell listeners that nobody wants filters any more."""
        loss = self._loss_of(dropped, "left")
        self._tell(lambda listener: listener.left(loss))

    def _loss_of(self, filters: Sequence[Filter], reason: str) -> Loss:
        if self.attempt is not None:
            self._local = self.attempt.receiver.local
        return Loss(
            exchange=self.exchange.id,
            data_types=self._types_of(filters),
            symbols=self._symbols_of(filters),
            filters=tuple(filters),
            local_timestamp=self._local,
            reason=reason,
            is_whole_socket=filters == self.plan.filters,
        )

    def fail(self, error: Exception) -> None:
        """Tell listeners about a failure."""
        self.failures += 1
        local = ms_text(self.context.timing.clock() // 1000)
        details = str(error) or type(error).__name__
        failure = Failure(self.exchange.id, details, local, self.failures)
        self._tell(lambda listener: listener.failed(failure))

    def lose(self, loss: Loss) -> None:
        """Tell listeners that something starts over."""
        local = self.context.loss_time(loss.exchange, loss.local_timestamp)
        dated = msgspec.structs.replace(loss, local_timestamp=local)
        self._tell(lambda listener: listener.lost(dated))

    def _tell(self, tell: Callable[[FeedListener], None]) -> None:
        """Tell every listener, after the records that came before."""
        self.context.turns[self.exchange.id].flush()
        for listener in [*self.listeners]:
            tell(listener)

    def _types_of(self, filters: Sequence[Filter]) -> frozenset[str]:
        """Return the data types that filters bring anything of."""
        channels = {entry.channel for entry in filters}
        environment = self.context.settings.exchange_environment
        return frozenset(
            name
            for name in self.data_types
            if any(
                entry.channel in channels
                for entry in live_filters(self.exchange, name, None, environment)
            )
        )

    def _symbols_of(self, filters: Sequence[Filter]) -> frozenset[str] | None:
        shared = self.feed.whole_market.union(self.feed.grouped)
        if any(entry.symbols is None or entry.channel in shared for entry in filters):
            return None
        return frozenset(symbol.upper() for entry in filters for symbol in entry.symbols or ())
