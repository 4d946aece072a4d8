"""Binance: spot and USD-margined futures differ in paths, limits and what REST knows."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.server.exchange.session import Markets
from tardis_machine.server.exchange.venues.combined_streams import CombinedStreamsSession
from tardis_machine.server.exchange.venues.weighted_rest import Query, Reply, WeightedRest
from tardis_machine.sources.simulator.binance.futures import BinanceFuturesFeed
from tardis_machine.sources.simulator.binance.spot import BinanceSpotFeed

_PUBLIC = ("trade", "depth", "bookTicker")
"""Channels of /public; all others are streamed by /market. Paths without either stream both."""

_MICROSECONDS = re.compile(r'("[ETOC]":\d{13})\d{3}\b')


class FuturesSession(CombinedStreamsSession[BinanceFuturesFeed]):
    """Streams of USD-margined futures."""

    ping_seconds: ClassVar[float | None] = 180.0
    pong_seconds: ClassVar[float] = 600.0
    max_messages_per_second: ClassVar[int] = 10
    speeds: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "trade": (),
        "depth": ("0ms", "100ms", "250ms", "500ms"),
        "bookTicker": (),
        "markPrice": ("1s",),
        "ticker": (),
        "forceOrder": (),
    }

    def streams(self, channel: str) -> bool:
        """Say whether the path of this connection streams a channel."""
        route = self.connection.address.path.split("/")[1]
        return route not in ("public", "market") or (route == "public") is (channel in _PUBLIC)


class SpotSession(CombinedStreamsSession[BinanceSpotFeed]):
    """Streams of spot markets; times are in milliseconds unless the address asks for more."""

    ping_seconds: ClassVar[float | None] = 20.0
    pong_seconds: ClassVar[float] = 60.0
    max_messages_per_second: ClassVar[int] = 5
    speeds: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "trade": (),
        "depth": ("100ms", "1000ms"),
        "bookTicker": (),
        "ticker": (),
    }

    def convert(self, body: str) -> str:
        """Cut times to milliseconds, unless the address has `timeUnit=microsecond`."""
        if self.connection.address.query.get("timeUnit", "").lower() == "microsecond":
            return body
        return _MICROSECONDS.sub(r"\1", body)


class FuturesRest(WeightedRest):
    """Books and open interest."""

    prefixes: ClassVar[tuple[str, ...]] = ("/fapi/v1/",)
    weight_per_minute: ClassVar[int] = 2400
    depth_weights: ClassVar[Mapping[int, int]] = {
        5: 2,
        10: 2,
        20: 2,
        50: 2,
        100: 5,
        500: 10,
        1000: 20,
    }
    default_depth: ClassVar[int] = 500

    def __init__(self, markets: Markets[BinanceFuturesFeed], clock: MarketClock) -> None:
        super().__init__(markets, clock)
        self.of_symbols["openInterest"] = self._open_interest

    def _open_interest(self, feed: Any, _: Query) -> Reply:
        return 200, feed.open_interest()


class SpotRest(WeightedRest):
    """Books with any number of levels."""

    prefixes: ClassVar[tuple[str, ...]] = ("/api/v1/", "/api/v3/")
    weight_per_minute: ClassVar[int] = 6000
    depth_weights: ClassVar[Mapping[int, int]] = {100: 5, 500: 25, 1000: 50, 5000: 250}
    default_depth: ClassVar[int] = 100

    def has_depth(self, levels: int) -> bool:
        """Say whether a book with so many levels can be asked for."""
        return 0 < levels <= max(self.depth_weights)
