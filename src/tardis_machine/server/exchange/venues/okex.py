"""OKX protocol v5: subscriptions by argument, a socket for trades of its own, plain pings."""

from typing import Any, ClassVar

import msgspec

from tardis_machine.server.exchange.connection import Connection
from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.server.exchange.session import Markets, Session, read_object
from tardis_machine.sources.simulator.okex_swap import INDEX, LIQUIDATIONS, OkexSwapFeed, push

_PUBLIC = (
    *("books", "bbo-tbt", "trades", "tickers", "mark-price"),
    *("funding-rate", "open-interest", INDEX, LIQUIDATIONS),
)
_BUSINESS = ("trades-all",)
_FOR_LOGINS = ("books-l2-tbt", "books50-l2-tbt")
_SAME = {"trades": "trades-all", **dict.fromkeys(_FOR_LOGINS, "books")}
"""Channel -> the one of the feed that brings the same."""

_INVALID_REQUEST, _TOO_FREQUENT, _NO_SUCH_CHANNEL, _NEEDS_LOGIN = "60012", "60014", "60018", "60011"
_LOGIN_FIELDS = ("apiKey", "passphrase", "timestamp", "sign")


class OkexSession(Session[OkexSwapFeed]):
    """Acknowledges each argument; one that does not exist is an error and harms no other."""

    numbered_book: ClassVar[str | None] = "books"

    def __init__(
        self, markets: Markets[OkexSwapFeed], connection: Connection, clock: MarketClock
    ) -> None:
        super().__init__(markets, connection, clock)
        self._is_business = connection.address.path.rstrip("/").endswith("business")
        self._is_logged_in = False

    def receive(self, text: str) -> None:
        """Answer an operation, or a plain ping."""
        if text == "ping":
            self.connection.send("pong")
            return
        request = read_object(text) or {}
        operation, arguments = request.get("op"), request.get("args")
        if not isinstance(arguments, list) or not all(isinstance(one, dict) for one in arguments):
            self._fail(_INVALID_REQUEST, f"Invalid request: {text}")
        elif operation == "login":
            self._log_in(arguments)
        elif operation in ("subscribe", "unsubscribe"):
            for argument in arguments:
                self._change(operation, argument)
        else:
            self._fail(_INVALID_REQUEST, f"Invalid request: {text}")

    def refuse(self, text: str, retry_after_seconds: int) -> None:
        """Answer that requests come too often."""
        self._fail(_TOO_FREQUENT, "Requests too frequent")

    def _log_in(self, arguments: list[dict[str, Any]]) -> None:
        if not arguments or not all(arguments[0].get(name) for name in _LOGIN_FIELDS):
            self._fail("60009", "Login failed.")
            return
        self._is_logged_in = True
        self._answer({"event": "login", "code": "0", "msg": ""})

    def _change(self, operation: str, argument: dict[str, Any]) -> None:
        name = msgspec.json.encode(argument).decode()
        channel = argument.get("channel")
        markets = self._markets_of(argument)
        if not markets or not self._has_channel(channel):
            described = ",".join(f"{key}:{value}" for key, value in argument.items())
            text = (
                f"Wrong URL or {described} doesn't exist. Please use the correct URL, channel "
                "and parameters referring to API document."
            )
            self._fail(_NO_SUCH_CHANNEL, text)
        elif channel in _FOR_LOGINS and not self._is_logged_in:
            self._fail(_NEEDS_LOGIN, "Please log in")
        else:
            self._answer({"event": operation, "arg": argument})
            if operation == "unsubscribe":
                self.unsubscribe(name)
            elif not self.has(name):
                self._start(name, str(channel), markets)

    def _has_channel(self, channel: Any) -> bool:
        return channel in (_BUSINESS if self._is_business else (*_PUBLIC, *_FOR_LOGINS))

    def _markets_of(self, argument: dict[str, Any]) -> list[str]:
        """Return the symbols that an argument is about."""
        symbol = argument.get("instId")
        if argument.get("channel") == LIQUIDATIONS:
            return list(self.markets) if argument.get("instType") == "SWAP" else []
        if argument.get("channel") == INDEX:
            members = (
                name for name, market in self.markets.items() if market.feed.index_symbol == symbol
            )
            return list(members)[:1]
        return [symbol] if isinstance(symbol, str) and symbol in self.markets else []

    def _start(self, name: str, channel: str, symbols: list[str]) -> None:
        """Send the state of a channel, and what happens from now on."""
        heard = _SAME.get(channel, channel)

        def wrap(body: str) -> str:
            return push(name, body)

        for symbol in symbols:
            market = self.markets[symbol]
            state = market.feed.state(heard)
            if state:
                self.connection.publish(name, wrap(state))
            self.subscribe(name, market, heard, wrap)

    def _answer(self, message: dict[str, Any]) -> None:
        self.send({**message, "connId": f"{self.connection.number:08x}"})

    def _fail(self, code: str, text: str) -> None:
        self._answer({"event": "error", "code": code, "msg": text})
