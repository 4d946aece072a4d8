"""Kraken WebSocket v2: one acknowledgement per symbol, snapshots first, heartbeats."""

from typing import Any

from tardis_machine.model.time import us_text
from tardis_machine.server.exchange.connection import Connection
from tardis_machine.server.exchange.markets import LiveMarket
from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.server.exchange.session import Markets, Session, read_object, texts_of
from tardis_machine.sources.simulator.kraken import TICKER_ON_TRADES, KrakenFeed

DEPTHS = (10, 25, 100, 500, 1000)
INSTRUMENTS = "instrument"

_CHANNELS = ("book", "trade", "ticker")
_METHODS = ("subscribe", "unsubscribe")
_HEARTBEAT = {"channel": "heartbeat"}


class KrakenSession(Session[KrakenFeed]):
    """Answers methods; books bring all levels, whatever depth is asked for."""

    def __init__(
        self, markets: Markets[KrakenFeed], connection: Connection, clock: MarketClock
    ) -> None:
        super().__init__(markets, connection, clock)
        self._beat_seconds = self.opened_seconds

    def open(self) -> None:
        """Tell that the exchange is online."""
        status = {
            "version": "2.0.10",
            "system": "online",
            "api_version": "v2",
            "connection_id": self.connection.number,
        }
        self.send({"channel": "status", "type": "update", "data": [status]})

    def receive(self, text: str) -> None:
        """Answer a method call."""
        call = read_object(text)
        if call is None:
            self._fail({}, "Malformed JSON")
        elif call.get("method") == "ping":
            self._answer(call, {"method": "pong"})
        elif call.get("method") not in _METHODS:
            self._fail(call, "Unsupported method")
        else:
            params = call.get("params")
            self._change(call, params if isinstance(params, dict) else {})

    def refuse(self, text: str, retry_after_seconds: int) -> None:
        """Answer that the limit of messages was passed."""
        self._fail(read_object(text) or {}, "Exceeded msg rate")

    def _change(self, call: dict[str, Any], params: dict[str, Any]) -> None:
        channel, symbols = params.get("channel"), texts_of(params.get("symbol"))
        if channel == INSTRUMENTS:
            self._tell_instruments(call)
        elif channel not in _CHANNELS:
            self._fail(call, f"Unsupported channel {channel}")
        elif not symbols:
            self._fail(call, "Symbol(s) not provided")
        elif channel == "book" and params.get("depth", 10) not in DEPTHS:
            self._fail(call, f"Unsupported depth {params['depth']}")
        else:
            change = self._subscribe if call["method"] == "subscribe" else self._unsubscribe
            for symbol in symbols:
                change(call, channel, symbol, params)

    def _subscribe(
        self, call: dict[str, Any], channel: str, symbol: str, params: dict[str, Any]
    ) -> None:
        name, market = f"{channel}:{symbol}", self.markets.get(symbol)
        if market is None:
            self._fail(call, f"Currency pair not supported {symbol}", symbol=symbol)
        elif self.has(name):
            self._fail(call, "Already subscribed", symbol=symbol)
        else:
            result = {**params, "symbol": symbol, "snapshot": params.get("snapshot", True)}
            self._answer(call, {"result": result, "success": True})
            if result["snapshot"]:
                self.connection.publish(name, _snapshot(market, channel))
            self.subscribe(name, market, _heard_channel(channel, params))

    def _unsubscribe(
        self, call: dict[str, Any], channel: str, symbol: str, params: dict[str, Any]
    ) -> None:
        if self.unsubscribe(f"{channel}:{symbol}"):
            result = {"channel": channel, "symbol": symbol}
            self._answer(call, {"result": result, "success": True})
        else:
            self._fail(call, "Subscription Not Found", symbol=symbol)

    def _tell_instruments(self, call: dict[str, Any]) -> None:
        self._answer(call, {"result": {"channel": INSTRUMENTS}, "success": True})
        pairs = [
            {
                "symbol": symbol,
                "base": symbol.partition("/")[0],
                "quote": symbol.partition("/")[2],
                "status": "online",
                "price_precision": market.feed.grid.decimals,
                "qty_precision": 8,
            }
            for symbol, market in self.markets.items()
        ]
        data = {"assets": [], "pairs": pairs}
        self.send({"channel": INSTRUMENTS, "type": "snapshot", "data": data})

    def on_time(self) -> None:
        """Send a heartbeat every second to those who subscribed something."""
        now = self.clock.passed_seconds()
        if self.names and now - self._beat_seconds >= 1.0:
            self._beat_seconds = now
            self.send(_HEARTBEAT)

    def _answer(self, call: dict[str, Any], fields: dict[str, Any]) -> None:
        now = us_text(self.clock.us())
        answer = {"method": call.get("method"), **fields, "time_in": now, "time_out": now}
        if "req_id" in call:
            answer["req_id"] = call["req_id"]
        self.send(answer)

    def _fail(self, call: dict[str, Any], text: str, **fields: str) -> None:
        self._answer(call, {"error": text, "success": False, **fields})


def _snapshot(market: LiveMarket[KrakenFeed], channel: str) -> str:
    if channel == "book":
        return market.feed.book_snapshot()
    return market.feed.trades("snapshot") if channel == "trade" else market.feed.ticker("snapshot")


def _heard_channel(channel: str, params: dict[str, Any]) -> str:
    """Return the channel of the feed: tickers come on trades unless asked for otherwise."""
    is_on_trades = channel == "ticker" and params.get("event_trigger", "trades") == "trades"
    return TICKER_ON_TRADES if is_on_trades else channel
