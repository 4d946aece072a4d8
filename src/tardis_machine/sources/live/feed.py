"""The live feed of one exchange, shared by all who want something of it.

The unit is (channel, symbol): what a socket brings already is not asked for again. A further
listener subscribes only what is missing, on a socket with room or on a new one.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, TypeAlias

from tardis_machine.exchanges.feeds import FeedConnection, subscription_count
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.spec import Exchange, Mapper
from tardis_machine.exchanges.versions import feed_of
from tardis_machine.model.records import BookChange
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text
from tardis_machine.sources.live.context import LiveContext
from tardis_machine.sources.live.feed_socket import FeedSocket
from tardis_machine.sources.live.listeners import FeedListener

Unit: TypeAlias = tuple[str, str | None]
"""A channel, and a symbol or None for all of them."""

StartTask: TypeAlias = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class ExchangeFeed:
    """Opens and closes sockets as listeners come and go.

    Args:
        exchange: which.
        context: what all feeds share.
        start_task: runs a socket.
        timeout_seconds: explicit staleness limit of its clients; None for the usual watch.
        taps: listen to everything.
    """

    def __init__(
        self,
        exchange: Exchange,
        context: LiveContext,
        start_task: StartTask,
        timeout_seconds: float | None,
        taps: tuple[FeedListener, ...],
    ) -> None:
        self._exchange = exchange
        self._feed = feed_of(exchange)
        self._context = context
        self._start_task = start_task
        self._timeout_seconds = timeout_seconds
        self._taps = taps
        # Records made of several connections outlive each of them: what one brought is still known.
        self._joined: dict[str, Mapper] = {}
        self._tasks: dict[FeedSocket, asyncio.Task[None]] = {}
        self._wanted: dict[FeedListener, set[Unit]] = {}

    @property
    def is_idle(self) -> bool:
        """Say whether no socket is left."""
        return not self._tasks

    @property
    def socket_count(self) -> int:
        """Return how many sockets there are."""
        return len(self._tasks)

    def brings(self, entry: Filter) -> bool:
        """Say whether a channel comes with all these symbols."""
        known = {unit for socket in self._tasks for unit in self._units(socket.plan.filters)}
        wanted = self._units([entry])
        return (entry.channel, None) in known or wanted <= known

    def refresh_books(self) -> None:
        """Ask for all books again, while updates go on."""
        for socket in self._tasks:
            if socket.attempt is not None:
                socket.attempt.refresh_books()

    def close(self) -> None:
        """Tell taps that nothing more comes."""
        for tap in self._taps:
            tap.closed()

    def attach(
        self, listener: FeedListener, data_types: Sequence[str], filters: Sequence[Filter]
    ) -> None:
        """Bring what filters ask for, mapped to data types, to a listener.

        Raises:
            RequestError: the venue does not stream that.
        """
        wanted = [
            entry
            for entry in optimize_filters(filters)
            if entry.channel not in self._feed.recorded_only
        ]
        missing = self._missing(wanted)
        # Plans first: what the venue does not stream must leave no trace.
        plans = self._feed.connections(missing, self._context.access()) if missing else []
        self._wanted.setdefault(listener, set()).update(self._units(wanted))
        sockets = self._carriers(wanted)
        sockets |= dict.fromkeys(self._place(plan) for plan in plans)
        for socket in sockets:
            if socket.attempt is not None:
                # What came before belongs to those who were here.
                socket.attempt.flush()
            socket.add_types(data_types)
            socket.add_listener(listener)

    def detach(self, listener: FeedListener) -> None:
        """Bring nothing more to a listener; what nobody else wants is left or closed."""
        self._wanted.pop(listener, None)
        used = set().union(*self._wanted.values())
        for socket, task in [*self._tasks.items()]:
            socket.remove_listener(listener)
            unused = self._units(socket.plan.filters) - used
            if all(each in self._taps for each in socket.listeners):
                del self._tasks[socket]
                socket.leave(socket.plan.filters)
                task.cancel()
                self._context.metrics.connections.labels(self._exchange.id).dec()
            elif unused:
                socket.shrink(self._filters_of(unused, socket.plan.filters))

    def held_books(self, symbols: Collection[str] | None) -> list[BookChange]:
        """Return the books of symbols as they are now; None for all."""
        local = ms_text(self._context.timing.clock() // 1000)
        books = []
        for socket in self._tasks:
            if socket.attempt is not None:
                socket.attempt.flush()
                books += socket.attempt.receiver.books.snapshots(symbols, local)
        return books

    def _place(self, plan: FeedConnection) -> FeedSocket:
        """Add a plan to a socket with room, or open one for it."""
        for socket in self._tasks:
            if socket.plan.url == plan.url and self._has_room(socket, plan):
                grown = socket.plan_with(plan.filters)
                if grown is not None:
                    socket.grow(grown, plan)
                    return socket
        socket = FeedSocket(
            *(self._exchange, self._feed, plan, self._context, self._timeout_seconds),
            self._joined,
        )
        for tap in self._taps:
            socket.add_listener(tap)
        self._tasks[socket] = self._start_task(socket.run())
        self._context.metrics.connections.labels(self._exchange.id).inc()
        return socket

    def _has_room(self, socket: FeedSocket, plan: FeedConnection) -> bool:
        most = self._feed.max_subscriptions
        count = subscription_count(socket.plan.filters) + subscription_count(plan.filters)
        return most is None or count <= most

    def _missing(self, filters: Sequence[Filter]) -> list[Filter]:
        """Return what no socket brings yet."""
        known = {unit for socket in self._tasks for unit in self._units(socket.plan.filters)}
        return self._filters_of(self._units(filters) - known, filters)

    def _carriers(self, filters: Sequence[Filter]) -> dict[FeedSocket, None]:
        """Return the sockets that bring any of what is wanted."""
        wanted = self._units(filters)
        return {
            socket: None
            for socket in self._tasks
            if not wanted.isdisjoint(self._units(socket.plan.filters))
        }

    def _filters_of(self, units: Collection[Unit], filters: Sequence[Filter]) -> list[Filter]:
        """Return the part of filters that is these units."""
        chosen = []
        for entry in filters:
            group = self._feed.grouped.get(entry.channel, str)
            symbols = tuple(
                symbol for symbol in entry.symbols or () if (entry.channel, group(symbol)) in units
            )
            if (entry.channel, None) in units:
                chosen.append(entry)
            elif symbols:
                chosen.append(Filter(entry.channel, symbols))
        return chosen

    def _units(self, filters: Iterable[Filter]) -> set[Unit]:
        return {(entry.channel, symbol) for entry in filters for symbol in self._symbols(entry)}

    def _symbols(self, entry: Filter) -> Iterable[str | None]:
        is_whole = entry.channel in self._feed.whole_market or not entry.symbols
        group = self._feed.grouped.get(entry.channel, str)
        return (None,) if is_whole else map(group, entry.symbols or ())
