"""Coinbase Exchange: channels with product lists, one subscribe message for all of them."""

from typing import Any

from tardis_machine.server.exchange.connection import Connection
from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.server.exchange.session import Markets, Session, read_object, texts_of
from tardis_machine.sources.simulator.coinbase import CoinbaseFeed

SUBSCRIBE_SECONDS = 5.0
"""How long a client may stay connected without subscribing."""

_MESSAGES = {
    "level2": "l2update",
    "level2_batch": "l2update",
    "matches": "match",
    "ticker": "ticker",
    "ticker_batch": "ticker",
    "heartbeat": "heartbeat",
    "status": "status",
}
"""Channel -> the type of the messages that it goes on with."""

_DIRECT_HOST = "ws-direct.exchange.coinbase.com"
_NEEDS_LOGIN = "level2"
_LOGIN_FIELDS = ("signature", "key", "passphrase", "timestamp")
_HEARTBEAT = "heartbeat"

Topic = tuple[str, str]
"""A channel and a product."""


class CoinbaseSession(Session[CoinbaseFeed]):
    """Answers each change with the list of all subscriptions."""

    def __init__(
        self, markets: Markets[CoinbaseFeed], connection: Connection, clock: MarketClock
    ) -> None:
        super().__init__(markets, connection, clock)
        self._topics: list[Topic] = []
        self._has_subscribed = False
        self._beat_seconds = self.opened_seconds

    def receive(self, text: str) -> None:
        """Answer a subscribe or unsubscribe message."""
        request = read_object(text)
        if request is None:
            self.send({"type": "error", "message": "Malformed JSON"})
            return
        kind = request.get("type")
        if kind not in ("subscribe", "unsubscribe"):
            reason = f"{kind} is not a valid type"
            self.send({"type": "error", "message": "Invalid message", "reason": reason})
            return
        topics = _read_topics(request)
        problem = self._problem(request, topics)
        if topics is None or problem:
            self.send({"type": "error", "message": f"Failed to {kind}", "reason": problem})
        elif kind == "subscribe":
            self._add(topics)
        else:
            self._remove(topics)

    def refuse(self, text: str, retry_after_seconds: int) -> None:
        """Answer that the limit of messages was passed."""
        reason = "rate limit exceeded"
        self.send({"type": "error", "message": "Failed to subscribe", "reason": reason})

    def _problem(self, request: dict[str, Any], topics: list[Topic] | None) -> str | None:
        """Return why a request is refused, in the venue's words."""
        if not topics:
            return "channels and product_ids must be provided"
        has_login = all(request.get(name) for name in _LOGIN_FIELDS)
        is_direct = self.connection.address.host == _DIRECT_HOST
        for channel, product in topics:
            if channel not in _MESSAGES:
                return f"{channel} is not a valid channel"
            if product not in self.markets:
                return f"{product} is not a valid product"
            if not has_login and (is_direct or channel == _NEEDS_LOGIN):
                return "level2, level3, and full channels now require authentication."
        return None

    def _add(self, topics: list[Topic]) -> None:
        self._has_subscribed = True
        added = [topic for topic in dict.fromkeys(topics) if topic not in self._topics]
        self._topics += added
        self._list_subscriptions()
        for channel, product in added:
            self._start(channel, product)

    def _start(self, channel: str, product: str) -> None:
        """Send the state of a channel, and what happens from now on."""
        name, market = f"{channel}:{product}", self.markets[product]
        message = _MESSAGES[channel]
        first = {
            "l2update": market.feed.snapshot,
            "match": market.feed.last_match,
            "ticker": market.feed.ticker,
        }.get(message)
        if first is not None and (text := first()):
            self.connection.publish(name, text)
        self.subscribe(name, market, message)

    def _remove(self, topics: list[Topic]) -> None:
        for channel, product in topics:
            self.unsubscribe(f"{channel}:{product}")
        self._topics = [topic for topic in self._topics if topic not in topics]
        self._list_subscriptions()

    def _list_subscriptions(self) -> None:
        products: dict[str, list[str]] = {}
        for channel, product in self._topics:
            products.setdefault(channel, []).append(product)
        channels = [
            {"name": name, "product_ids": ids, "account_ids": None}
            for name, ids in products.items()
        ]
        self.send({"type": "subscriptions", "channels": channels})

    def on_time(self) -> None:
        """Send heartbeats every second; hang up on a client that never subscribed."""
        now = self.clock.passed_seconds()
        if not self._has_subscribed and now - self.opened_seconds > SUBSCRIBE_SECONDS:
            self.connection.close(1000, "")
        if now - self._beat_seconds >= 1.0:
            self._beat_seconds = now
            for channel, product in self._topics:
                if channel == _HEARTBEAT:
                    text = self.markets[product].feed.heartbeat()
                    self.connection.publish(f"{channel}:{product}", text)


def _read_topics(request: dict[str, Any]) -> list[Topic] | None:
    """Return channels with products: a channel given as text has the products of the request."""
    common = texts_of(request.get("product_ids", []))
    channels = request.get("channels")
    if common is None or not isinstance(channels, list):
        return None
    topics: list[Topic] = []
    for entry in channels:
        is_object = isinstance(entry, dict)
        name = entry.get("name") if is_object else entry
        products = texts_of(entry.get("product_ids", common)) if is_object else common
        if not isinstance(name, str) or products is None:
            return None
        topics += [(name, product) for product in products]
    return topics
