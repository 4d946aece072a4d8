"""What every venue's side of a WebSocket shares: subscriptions, pings, refusals."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic

import msgspec

from tardis_machine.server.exchange.connection import Connection
from tardis_machine.server.exchange.markets import F, LiveMarket
from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.sources.simulator.listener import Fill

Markets = Mapping[str, LiveMarket[F]]
"""The symbols of an exchange in the venue's spelling."""

Frame = Callable[[str], str]
"""Wraps the body of a message as the venue does for one subscription."""


class Subscription:
    """One channel of one symbol that a client subscribed under a name."""

    def __init__(
        self,
        name: str,
        market: LiveMarket[Any],
        channel: str,
        connection: Connection,
        frame: Frame,
        *,
        is_numbered_book: bool,
    ) -> None:
        self._name = name
        self._market = market
        self._channel = channel
        self._connection = connection
        self._frame = frame
        self._is_numbered_book = is_numbered_book
        connection.has_numbered_books |= is_numbered_book
        market.subscribe(channel, self)

    def deliver(self, body: str, fills: Sequence[Fill]) -> None:
        """Send a message of the channel to the client."""
        connection, is_numbered = self._connection, self._is_numbered_book
        is_written = connection.publish(self._name, self._frame(body), is_numbered_book=is_numbered)
        if fills and is_written:
            connection.note_trades(self._market.feed.symbol, fills)

    def end(self) -> None:
        """Send no more."""
        self._market.unsubscribe(self._channel, self)


class Session(ABC, Generic[F]):
    """Speaks a venue's protocol with one client; its timers run in real time at any speed."""

    numbered_book: ClassVar[str | None] = None
    """The channel of books whose updates have numbers, so that a client sees a gap."""
    ping_seconds: ClassVar[float | None] = None
    """How often the venue sends ping frames. None: it does not."""
    pong_seconds: ClassVar[float] = 0.0
    """How long it waits for any answer."""

    def __init__(self, markets: Markets[F], connection: Connection, clock: MarketClock) -> None:
        self.markets = markets
        self.connection = connection
        self.clock = clock
        self.opened_seconds = self.heard_seconds = clock.passed_seconds()
        self._pinged_seconds = self.opened_seconds
        self._subscriptions: dict[str, list[Subscription]] = {}

    @property
    def names(self) -> list[str]:
        """Return the names of all subscriptions, oldest first."""
        return list(self._subscriptions)

    def has(self, name: str) -> bool:
        """Say whether the client has a subscription of this name."""
        return name in self._subscriptions

    def open(self) -> None:
        """Greet the client, and subscribe what its address asks for."""

    @abstractmethod
    def receive(self, text: str) -> None:
        """Answer a message of the client."""

    def refuse(self, text: str, retry_after_seconds: int) -> None:
        """Answer that the client has sent too many messages."""
        self.receive(text)

    def hear(self) -> None:
        """Note that the client is alive: a message, a ping or a pong came."""
        self.heard_seconds = self.clock.passed_seconds()

    def on_time(self) -> None:
        """Send what is due by the clock; called many times per second."""
        if self.ping_seconds is None:
            return
        now = self.clock.passed_seconds()
        if now - self.heard_seconds > self.ping_seconds + self.pong_seconds:
            self.connection.close(1008, "Pong timeout")
        elif now - self._pinged_seconds >= self.ping_seconds:
            self._pinged_seconds = now
            self.connection.ping()

    def subscribe(self, name: str, market: LiveMarket[F], channel: str, frame: Frame = str) -> None:
        """Send a channel of a symbol to the client from now on; a name may cover several."""
        subscription = Subscription(
            name,
            market,
            channel,
            self.connection,
            frame,
            is_numbered_book=channel == self.numbered_book,
        )
        self._subscriptions.setdefault(name, []).append(subscription)

    def unsubscribe(self, name: str) -> bool:
        """End a subscription; return whether there was one."""
        ended = self._subscriptions.pop(name, None)
        for subscription in ended or ():
            subscription.end()
        return ended is not None

    def leave(self) -> None:
        """End every subscription: the client is gone."""
        for name in self.names:
            self.unsubscribe(name)

    def send(self, message: Any) -> None:
        """Send one answer as JSON."""
        self.connection.send(msgspec.json.encode(message).decode())


def read_object(text: str) -> dict[str, Any] | None:
    """Decode a client's message; None when it is not a JSON object."""
    try:
        message = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return message if isinstance(message, dict) else None


def texts_of(value: Any) -> list[str] | None:
    """Return a list of texts as it is; None for everything else."""
    is_list = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return value if is_list else None
