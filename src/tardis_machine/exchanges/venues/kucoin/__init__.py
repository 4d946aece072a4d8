"""KuCoin: messages by topic, `/<channel>:<symbol>`; books begin with a REST answer."""

from collections.abc import Callable

from tardis_machine.exchanges.spec import (
    Symbols,
    Venue,
    Version,
    WireFormat,
    always,
    channel_filters,
)
from tardis_machine.exchanges.tags import TextTag
from tardis_machine.exchanges.venues.kucoin import futures, spot
from tardis_machine.exchanges.venues.kucoin.feed import make_feed, read_subscribe
from tardis_machine.model.requests import Filter


def locate(topic: str) -> Filter:
    """Return channel and symbol of `/market/match:BTC-USDT`."""
    channel, _, symbol = topic.removeprefix("/").partition(":")
    return Filter(channel, (symbol,) if symbol else None)


FORMAT = WireFormat(tag=TextTag("topic"), locate=locate, read_subscribe=read_subscribe)


def _filters(*channels: str) -> Callable[[Symbols], list[Filter]]:
    return channel_filters(*channels, convert=str.upper)


VENUES = {
    "kucoin": Venue(
        formats=(FORMAT,),
        versions={
            "trade": always(spot.TradeMapper, "market/match", convert=str.upper),
            "book_change": (
                Version(spot.BookMapper, _filters("market/level2", "market/level2Snapshot")),
            ),
            "book_ticker": always(spot.BookTickerMapper, "market/ticker", convert=str.upper),
        },
        feed=make_feed("kucoin"),
    ),
    "kucoin-futures": Venue(
        formats=(FORMAT,),
        versions={
            "trade": always(futures.TradeMapper, "contractMarket/execution", convert=str.upper),
            "book_change": (
                Version(
                    futures.BookMapper,
                    _filters("contractMarket/level2", "contractMarket/level2Snapshot"),
                ),
            ),
            "derivative_ticker": (
                Version(
                    futures.DerivativeTickerMapper,
                    _filters("contract/instrument", "contractMarket/execution", "contract/details"),
                ),
            ),
            "book_ticker": always(
                futures.BookTickerMapper, "contractMarket/tickerV2", convert=str.upper
            ),
        },
        feed=make_feed("kucoin-futures"),
    ),
}
