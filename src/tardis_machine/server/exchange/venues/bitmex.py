"""BitMEX: tables that start with a partial, plain text pings, one answer per topic."""

from typing import Any

from tardis_machine.model.time import us_text
from tardis_machine.server.exchange.markets import LiveMarket
from tardis_machine.server.exchange.session import Session, read_object, texts_of
from tardis_machine.sources.simulator.bitmex import TABLES, BitmexFeed

_EMPTY_TABLES = ("announcement", "chat", "connected", "funding", "insurance", "settlement")
"""Tables that exist and in which nothing happens here."""

_OPERATIONS = ("subscribe", "unsubscribe")
_BAD_REQUEST, _TOO_MANY_REQUESTS = 400, 429


class BitmexSession(Session[BitmexFeed]):
    """Subscribes topics: `table:symbol`, or `table` for all symbols."""

    def open(self) -> None:
        """Welcome the client, and subscribe the topics of `?subscribe=a,b`."""
        self.send(
            {
                "info": "Welcome to the BitMEX Realtime API.",
                "version": "2.0.0",
                "timestamp": us_text(self.clock.us())[:23] + "Z",
                "docs": "https://www.bitmex.com/app/wsAPI",
                "limit": {"remaining": 39},
            }
        )
        topics = self.connection.address.query.get("subscribe", "")
        request = {"op": "subscribe", "args": topics.split(",")}
        for topic in filter(None, topics.split(",")):
            self._subscribe(topic, request)

    def receive(self, text: str) -> None:
        """Answer an operation, or a plain ping."""
        if text == "ping":
            self.connection.send("pong")
            return
        request = read_object(text)
        if request is None:
            self._fail("Could not parse message as JSON.", None)
            return
        operation, args = request.get("op"), request.get("args")
        topics = [args] if isinstance(args, str) else texts_of(args)
        if operation not in _OPERATIONS or topics is None:
            self._fail(f"Unrecognized request: {operation}", request)
            return
        change = self._subscribe if operation == "subscribe" else self._unsubscribe
        for topic in topics:
            change(topic, request)

    def refuse(self, text: str, retry_after_seconds: int) -> None:
        """Answer that the limit of messages was passed."""
        error = f"Rate limit exceeded, retry in {retry_after_seconds} seconds."
        meta = {"retryAfter": retry_after_seconds}
        request = read_object(text)
        self.send({"status": _TOO_MANY_REQUESTS, "error": error, "meta": meta, "request": request})

    def _subscribe(self, topic: str, request: dict[str, Any]) -> None:
        table, _, symbol = topic.partition(":")
        if table not in TABLES and table not in _EMPTY_TABLES:
            self._fail(f"Unknown table: {table}", request)
        elif symbol and symbol not in self.markets:
            self._fail("Unknown or expired symbol.", request)
        elif self.has(topic):
            text = f"You are already subscribed to this topic: {topic}"
            self._fail(text, request)
        else:
            self.send({"success": True, "subscribe": topic, "request": request})
            self._start(topic, table, symbol)

    def _start(self, topic: str, table: str, symbol: str) -> None:
        """Send the partials of a topic, and what happens from now on."""
        if table in _EMPTY_TABLES:
            self.send({"table": table, "action": "partial", "keys": [], "types": {}, "data": []})
            return
        chosen = [self.markets[symbol]] if symbol else list(self.markets.values())
        for market in chosen:
            self._follow(topic, market, table)

    def _follow(self, topic: str, market: LiveMarket[BitmexFeed], table: str) -> None:
        self.connection.publish(topic, market.feed.partial(table))
        self.subscribe(topic, market, table)

    def _unsubscribe(self, topic: str, request: dict[str, Any]) -> None:
        if self.unsubscribe(topic):
            self.send({"success": True, "unsubscribe": topic, "request": request})
        else:
            text = f"You are not subscribed to this topic: {topic}"
            self._fail(text, request)

    def _fail(self, text: str, request: dict[str, Any] | None) -> None:
        self.send({"status": _BAD_REQUEST, "error": text, "meta": {}, "request": request})
