"""One connection of a socket, from its first frame to its end."""

import asyncio
from collections.abc import Callable, Iterable

from tardis_machine.exchanges.feeds import Verdict
from tardis_machine.model.errors import BookGapError, MappingError
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import SECOND_US
from tardis_machine.sources.live.connection import Connection
from tardis_machine.sources.live.context import SocketState
from tardis_machine.sources.live.errors import ExchangeError, StaleConnectionError
from tardis_machine.sources.live.listeners import Loss
from tardis_machine.sources.live.receiver import BOOKS, Receiver
from tardis_machine.sources.live.rest.pollers import Poller
from tardis_machine.sources.live.rest.snapshots import SnapshotQueue
from tardis_machine.sources.live.tasks import run_until_first_ends
from tardis_machine.sources.live.watch import channel_counts, watch_connection, watch_interval
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

FLUSH_MESSAGES = 500
"""Messages after which records are handed on although more are at hand."""

FIRST_FLUSH_MESSAGES = 16
"""The same while it is not known how long that takes."""

FLUSH_SECONDS = 0.02
"""How long handing on may take: where it takes longer, records are handed on sooner."""

LOOK_SECONDS = 1.0
SKIP_TOLD_SECONDS = 1.0
RESYNC_SECONDS = 15.0
"""A book that was subscribed anew begins within this time, or the connection does."""


class Attempt:
    """Does what a plan says on an open connection.

    Records are handed on when the loop has nothing more to read, or when another connection of the
    exchange brings something: a burst of messages becomes one list of records.
    """

    def __init__(self, socket: SocketState, connection: Connection) -> None:
        self._socket = socket
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._outgoing: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
        self._unflushed = 0
        self._flush_messages = FIRST_FLUSH_MESSAGES
        self._is_flush_due = False
        self._resyncing: dict[str, float] = {}
        self._next_skip_told = 0.0
        self._counted: dict[str, int] = {}
        self._counted_bytes = 0
        context = socket.context
        self._turn = context.turns[socket.exchange.id]
        self._metrics = context.metrics.of(socket.exchange.id)
        self.receiver = Receiver(
            socket.exchange,
            socket.feed,
            context.settings.exchange_environment,
            context.timing.clock,
            self._on_new_key,
            socket.joined,
        )
        self.receiver.add_types(socket.data_types)
        self._snapshots = SnapshotQueue(
            lambda: socket.plan,
            context.rest,
            self._take_generated,
            lambda frame: self.send_later([frame], 0.0),
            self._metrics.snapshot_queue,
        )
        self._poller = Poller(lambda: socket.plan, context.rest, self._take_generated, socket.fail)

    async def run(self) -> tuple[str, Exception | None]:
        """Subscribe and receive until the connection ends; return why it did."""
        self._subscribe()
        watch = (
            watch_connection(self._connection, self.receiver)
            if self._socket.timeout_seconds is None
            else self._watch_interval(self._socket.timeout_seconds)
        )
        try:
            await run_until_first_ends(
                self._read(),
                self._send(),
                self._connection.keep_alive(self._write_ping()),
                watch,
                self._look_every_second(),
                self._snapshots.run(),
                self._poller.run(),
            )
        except StaleConnectionError as error:
            return "stale", error
        except ExchangeError as error:
            return "error", error
        return "closed", None

    def send_later(self, frames: Iterable[str], pause_seconds: float) -> None:
        """Send frames after those that wait already."""
        for frame in frames:
            self._outgoing.put_nowait((frame, pause_seconds))

    def forget(self, filters: Iterable[Filter]) -> None:
        """Drop what is known of filters that are subscribed no longer, or anew."""
        for entry in filters:
            self.receiver.forget(entry)
            for symbol in entry.symbols or ():
                self._snapshots.forget(symbol)

    def refresh_books(self) -> None:
        """Ask for every book again, while updates go on."""
        snapshots = self._socket.plan.snapshots
        for entry in self._socket.plan.filters:
            if snapshots is not None and entry.channel == snapshots.channel:
                for symbol in entry.symbols or ():
                    self._snapshots.again(symbol)
            elif entry.channel in self.receiver.book_channels and entry.symbols:
                frames = self._resubscription(entry)
                self.send_later(frames or (), self._socket.plan.pause_seconds)

    def flush(self) -> None:
        """Hand on the records that came."""
        self._is_flush_due = False
        self._unflushed = 0
        if self._turn.holder is self:
            self._turn.holder = None
        if not self.receiver.has_pending:
            return
        records = self.receiver.take_records()
        socket = self._socket
        socket.failures = 0
        self._metrics.records.inc(len(records))
        started = self._loop.time()
        for listener in [*socket.listeners]:
            listener.take_records(records)
        self._adapt(self._loop.time() - started)

    def _adapt(self, seconds: float) -> None:
        """Hand on fewer messages at once to listeners that take long, such as many deep views."""
        if seconds > FLUSH_SECONDS:
            self._flush_messages = max(1, self._flush_messages // 2)
        elif seconds < FLUSH_SECONDS / 4:
            self._flush_messages = min(FLUSH_MESSAGES, self._flush_messages * 2)

    def count(self) -> None:
        """Bring the metrics up to what came."""
        counts = channel_counts(self.receiver) | {"other": self.receiver.others}
        now_seconds = self.receiver.local_us / SECOND_US
        for channel, count in counts.items():
            new = count - self._counted.get(channel, 0)
            # What is subscribed no longer is counted no longer.
            if new > 0:
                self._metrics.count_messages(channel, new, now_seconds)
        self._metrics.received_bytes.inc(self.receiver.received_bytes - self._counted_bytes)
        self._counted, self._counted_bytes = counts, self.receiver.received_bytes

    def _subscribe(self) -> None:
        plan = self._socket.plan_anew()
        self.send_later(plan.opening, plan.opening_pause_seconds)
        self.send_later(plan.frames, plan.pause_seconds)

    def _write_ping(self) -> Callable[[], str] | None:
        feed, context = self._socket.feed, self._socket.context
        ping = feed.ping
        return None if ping is None else lambda: ping(context.access())

    async def _send(self) -> None:
        while True:
            frame, pause_seconds = await self._outgoing.get()
            await self._connection.send(frame)
            await asyncio.sleep(pause_seconds)

    async def _read(self) -> None:
        ending = await self._connection.read(self._take, self._socket.feed.unpack)
        log.info("exchange closed the connection", exchange=self._socket.exchange.id, how=ending)

    async def _watch_interval(self, seconds: float) -> None:
        if seconds > 0:
            await watch_interval(self.receiver, seconds)
        await asyncio.Event().wait()

    async def _look_every_second(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.count()
            self._check_resyncs()

    def _take_generated(self, message: bytes) -> None:
        self._take(message, is_generated=True)

    def _take(self, message: bytes, *, is_generated: bool = False) -> None:
        """Take one message of the exchange."""
        if self._turn.holder is not self:
            self._turn.give_to(self)
        try:
            verdict = self.receiver.take(message, is_generated=is_generated)
        except BookGapError as gap:
            self._hand_on(message)
            self._resync(gap)
            return
        except MappingError as error:
            self._hand_on(message)
            self._skip(error)
            return
        if self._socket.message_listeners:
            self._hand_on(message)
        if verdict is not None:
            self._react(verdict, message)
        else:
            self._plan_flush()

    def _plan_flush(self) -> None:
        self._unflushed += 1
        if self._unflushed >= self._flush_messages:
            self.flush()
        elif not self._is_flush_due and self.receiver.has_pending:
            self._is_flush_due = True
            self._loop.call_soon(self.flush)

    def _hand_on(self, message: bytes) -> None:
        for listener in self._socket.message_listeners:
            listener.take_message(self.receiver.local_us, message)

    def _react(self, verdict: Verdict, message: bytes) -> None:
        if verdict is not Verdict.REJECTED:
            answer = self._socket.feed.answer(message)
            if answer is not None:
                self.send_later([answer], 0.0)
        else:
            self._metrics.count_error("rejected")
            log.warning(
                "exchange rejected a subscription",
                exchange=self._socket.exchange.id,
                message=message.decode(errors="replace"),
            )

    def _skip(self, error: MappingError) -> None:
        """Leave out a message that cannot be mapped; the stream goes on.

        A venue that changed its messages would flood logs and clients, so not every one is told.
        """
        self._metrics.count_error("unmapped")
        if self._loop.time() < self._next_skip_told:
            return
        self._next_skip_told = self._loop.time() + SKIP_TOLD_SECONDS
        log.warning("message skipped", exchange=self._socket.exchange.id, error=str(error))
        self._socket.fail(error)

    def _on_new_key(self, located: Filter) -> None:
        wanted = {
            symbol
            for entry in self._socket.plan.filters
            if entry.channel == located.channel
            for symbol in entry.symbols or ()
        }
        for symbol in wanted.intersection(located.symbols or ()):
            self._snapshots.first(located.channel, symbol)

    def _resync(self, gap: BookGapError) -> None:
        """Begin the book of one symbol anew."""
        socket = self._socket
        entry = self._book_filter(gap.symbol)
        frames = self._resubscribe(entry)
        self._metrics.gaps.inc()
        log.warning("book gap", exchange=socket.exchange.id, details=str(gap))
        self.flush()
        self.receiver.books.drop(gap.symbol)
        socket.lose(
            Loss(
                exchange=socket.exchange.id,
                data_types=frozenset({BOOKS}),
                symbols=frozenset({gap.symbol.upper()}),
                filters=(entry,),
                local_timestamp=self.receiver.local,
                reason="gap",
            )
        )
        self._metrics.resyncs.inc()
        if frames is None:
            [symbol] = entry.symbols or (gap.symbol,)
            self._snapshots.again(symbol)
        else:
            self.send_later(frames, 0.0)
            self._resyncing[gap.symbol] = self._loop.time() + RESYNC_SECONDS

    def _resubscribe(self, entry: Filter) -> tuple[str, ...] | None:
        """Return the frames that begin a book anew; None when a request does."""
        socket = self._socket
        snapshots = socket.plan.snapshots
        if snapshots is not None and snapshots.channel == entry.channel:
            return None
        frames = self._resubscription(entry)
        if frames is None:
            raise ExchangeError(f"The book of {entry.symbols} has a gap; the connection restarts.")
        return frames

    def _resubscription(self, entry: Filter) -> tuple[str, ...] | None:
        """Return the frames that leave a channel and subscribe it again; None if none can."""
        feed, access = self._socket.feed, self._socket.context.access()
        if feed.unsubscribe is None:
            return None
        [plan] = feed.connections([entry], access)
        return (*feed.unsubscribe([entry], access), *plan.frames)

    def _book_filter(self, symbol: str) -> Filter:
        """Find the channel and the spelling that a book is subscribed by."""
        channels = self.receiver.book_channels
        for entry in self._socket.plan.filters:
            for native in entry.symbols or ():
                if entry.channel in channels and native.upper() == symbol.upper():
                    return Filter(entry.channel, (native,))
        raise ExchangeError(f"The book of {symbol} has a gap, and nobody asked for it.")

    def _check_resyncs(self) -> None:
        """End a connection whose book did not begin anew."""
        now = self._loop.time()
        for symbol, deadline in [*self._resyncing.items()]:
            if symbol in self.receiver.books:
                del self._resyncing[symbol]
            elif now > deadline:
                raise ExchangeError(f"The book of {symbol} did not begin anew after a gap.")
