"""Binance: spot, US and Jersey share one message format, futures and delivery another.

Options have streams of the same shape under names of their own.
"""

from collections.abc import Mapping

from msgspec import Struct

from tardis_machine.exchanges.protocols.combined_depth import BookMapper, FuturesBookMapper
from tardis_machine.exchanges.protocols.combined_streams import (
    FORMAT,
    BookTickerMapper,
    DerivativeTickerMapper,
    LiquidationMapper,
    TradeMapper,
    channel_of,
)
from tardis_machine.exchanges.spec import (
    Emit,
    Handler,
    Mapper,
    Symbols,
    Venue,
    Version,
    always,
    channel_filters,
)
from tardis_machine.exchanges.venues.binance import option_summaries, options, options_feed
from tardis_machine.exchanges.venues.binance.feed import FEEDS
from tardis_machine.model.requests import Filter


class IndexPriceData(Struct, gc=False):
    """Payload of `@indexPrice`, which is about a pair of currencies."""

    e: str
    i: str
    p: float


class IndexPriceMessage(Struct, gc=False):
    """An `@indexPrice` message."""

    data: IndexPriceData


class DeliveryTickerMapper(DerivativeTickerMapper):
    """Tickers of coin-margined contracts, whose index price comes on a stream of its own."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._index_prices: dict[str, float] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle index prices too."""
        if channel_of(tag) == "indexPrice":
            return IndexPriceMessage, self.map_index_price
        return super().handler(tag)

    def map_index_price(self, message: IndexPriceMessage, local: str, emit: Emit) -> None:
        """Remember the index price of a pair until one of its contracts has news."""
        if message.data.e == "indexPriceUpdate":
            self._index_prices[message.data.i] = message.data.p

    def update(
        self,
        symbol: str,
        timestamp: str | None,
        local: str,
        emit: Emit,
        fields: dict[str, float | str | None],
    ) -> None:
        """Add the index price of the contract's pair."""
        index_price = self._index_prices.get(symbol.partition("_")[0])
        if fields.get("index_price") is None:
            fields["index_price"] = index_price
        super().update(symbol, timestamp, local, emit, fields)


def delivery_ticker_filters(symbols: Symbols) -> list[Filter]:
    """Ask for index prices by pair: `btcusd` for `btcusd_perp`."""
    filters = channel_filters("markPrice", "ticker", "openInterest", convert=str.lower)(symbols)
    pairs = channel_filters("indexPrice", convert=lambda name: name.lower().partition("_")[0])
    return [*filters, *pairs(symbols)]


def _always(mapper: type[Mapper], *channels: str) -> tuple[Version, ...]:
    return always(mapper, *channels, convert=str.lower)


_OPTIONS = {
    "trade": (
        *always(options.OldTradeMapper, "trade", convert=str.upper),
        *_always(options.OptionTradeMapper, "optionTrade"),
    ),
    "book_change": (
        *always(options.OldBookMapper, "depth100", convert=str.upper),
        *_always(options.OptionBookMapper, "depth20"),
    ),
    "option_summary": (
        Version(option_summaries.OldSummaryMapper, options_feed.old_summary_filters),
        Version(
            option_summaries.OptionSummaryMapper,
            options_feed.summary_filters,
            options_feed.live_summary_filters,
        ),
    ),
    "book_ticker": _always(options.OptionBookTickerMapper, "bookTicker"),
}


def _venue(exchange: str, versions: Mapping[str, tuple[Version, ...]]) -> Venue:
    feeds = FEEDS | {options_feed.OPTIONS: options_feed.FEED}
    return Venue(formats=(FORMAT,), versions=versions, feed=feeds.get(exchange))


_JERSEY = {
    "trade": _always(TradeMapper, "trade"),
    "book_change": _always(BookMapper, "depth", "depthSnapshot"),
}
_SPOT = _JERSEY | {"book_ticker": _always(BookTickerMapper, "bookTicker")}
_FUTURES = _SPOT | {
    "book_change": _always(FuturesBookMapper, "depth", "depthSnapshot"),
    "derivative_ticker": _always(DerivativeTickerMapper, "markPrice", "ticker", "openInterest"),
    "liquidation": _always(LiquidationMapper, "forceOrder"),
}
_DELIVERY = _FUTURES | {
    "derivative_ticker": (Version(DeliveryTickerMapper, delivery_ticker_filters),),
}

VENUES = {
    exchange: _venue(exchange, versions)
    for exchange, versions in {
        "binance": _SPOT,
        "binance-us": _SPOT,
        # Closed in 2020.
        "binance-jersey": _JERSEY,
        "binance-futures": _FUTURES,
        "binance-delivery": _DELIVERY,
        options_feed.OPTIONS: _OPTIONS,
    }.items()
}
