"""REST of combined streams: books and more, within a weight per minute."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.server.exchange.rest import Answer
from tardis_machine.server.exchange.session import Markets

Query = Mapping[str, str]
Reply = tuple[int, str]
"""Status and body."""

_OK, _BAD_REQUEST, _NOT_FOUND, _TOO_MANY_REQUESTS = 200, 400, 404, 429


class WeightedRest:
    """Answers GET requests, and tells with each answer how much of the weight was used."""

    prefixes: ClassVar[tuple[str, ...]]
    """What leads the names of what can be asked for."""
    weight_per_minute: ClassVar[int]
    depth_weights: ClassVar[Mapping[int, int]]
    """Levels of a book -> its weight, ascending; the next larger number counts."""
    default_depth: ClassVar[int]

    def __init__(self, markets: Markets[Any], clock: MarketClock) -> None:
        self._markets = markets
        self._clock = clock
        self._minute = 0
        self._used = 0
        self.of_symbols: dict[str, Callable[[Any, Query], Reply]] = {"depth": self._depth}
        """Name -> what answers it for a feed."""
        self._others: dict[str, Callable[[], Any]] = {
            "ping": dict,
            "time": lambda: {"serverTime": clock.us() // 1000},
            "exchangeInfo": self._exchange_info,
        }

    def answer(self, path: str, query: Query) -> Answer:
        """Answer a GET request."""
        prefix = next((prefix for prefix in self.prefixes if path.startswith(prefix)), None)
        name = "" if prefix is None else path.removeprefix(prefix)
        if self._spend(self._weight(name, query)) > self.weight_per_minute:
            return self.refuse(60 - int(self._clock.passed_seconds()) % 60)
        if name in self._others:
            status, body = _OK, _text(self._others[name]())
        elif name in self.of_symbols:
            status, body = self._answer_symbol(name, query)
        else:
            status, body = _NOT_FOUND, problem(-5000, f"Path {path}, Method GET is invalid")
        return Answer(status, body, self._headers())

    def refuse(self, retry_after_seconds: int) -> Answer:
        """Answer that the client has asked too often."""
        text = (
            f"Too many requests; current limit is {self.weight_per_minute} requests per minute. "
            "Please use the websocket for live updates to avoid polling the API."
        )
        headers = {**self._headers(), "Retry-After": str(retry_after_seconds)}
        return Answer(_TOO_MANY_REQUESTS, problem(-1003, text), headers)

    def _weight(self, name: str, query: Query) -> int:
        levels = self._wanted_levels(query) if name == "depth" else None
        if levels is None:
            return 1
        return next(weight for most, weight in self.depth_weights.items() if levels <= most)

    def _wanted_levels(self, query: Query) -> int | None:
        """Return how many levels are asked for; None when a book cannot have as many."""
        text = query.get("limit", str(self.default_depth))
        levels = int(text) if text.isdecimal() else 0
        return levels if self.has_depth(levels) else None

    def has_depth(self, levels: int) -> bool:
        """Say whether a book with so many levels can be asked for."""
        return levels in self.depth_weights

    def _spend(self, weight: int) -> int:
        minute = int(self._clock.passed_seconds()) // 60
        if minute != self._minute:
            self._minute, self._used = minute, 0
        self._used += weight
        return self._used

    def _headers(self) -> dict[str, str]:
        return {"x-mbx-used-weight-1m": str(self._used)}

    def _answer_symbol(self, name: str, query: Query) -> Reply:
        symbol = query.get("symbol", "")
        if not symbol:
            text = "Mandatory parameter 'symbol' was not sent, was empty/null, or malformed."
            return _BAD_REQUEST, problem(-1102, text)
        market = self._markets.get(symbol.lower()) if symbol.isupper() else None
        if market is None:
            return _BAD_REQUEST, problem(-1121, "Invalid symbol.")
        return self.of_symbols[name](market.feed, query)

    def _depth(self, feed: Any, query: Query) -> Reply:
        levels = self._wanted_levels(query)
        if levels is None:
            return _BAD_REQUEST, problem(-4021, f"{query['limit']} is not valid depth limit.")
        return _OK, feed.depth_snapshot(levels)

    def _exchange_info(self) -> dict[str, Any]:
        limit = {
            "rateLimitType": "REQUEST_WEIGHT",
            "interval": "MINUTE",
            "intervalNum": 1,
            "limit": self.weight_per_minute,
        }
        symbols = [{"symbol": name.upper(), "status": "TRADING"} for name in self._markets]
        return {"timezone": "UTC", "rateLimits": [limit], "symbols": symbols}


def problem(code: int, text: str) -> str:
    """Return the body of an error."""
    return _text({"code": code, "msg": text})


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
