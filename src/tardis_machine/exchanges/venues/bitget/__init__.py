"""Bitget: the classic WebSocket v2 until April 2026, the unified v3 since then."""

from tardis_machine.exchanges.spec import Mapper, Venue, Version, channel_filters
from tardis_machine.exchanges.venues.bitget import v2, v3
from tardis_machine.exchanges.venues.bitget.feed import make_feed
from tardis_machine.model.requests import Filter


def _version(mapper: type[Mapper], channel: str) -> Version:
    return Version(mapper, channel_filters(channel, convert=str.upper))


def _market() -> dict[str, tuple[Version, ...]]:
    """Return what spot and futures have."""
    return {
        "trade": (_version(v2.TradeMapper, "trade"), _version(v3.TradeMapper, "publicTrade")),
        "book_change": (_version(v2.BookMapper, "books15"), _version(v3.BookMapper, "books")),
        "book_ticker": (
            _version(v2.BookTickerMapper, "books1"),
            _version(v3.BookTickerMapper, "books1"),
        ),
    }


_DERIVATIVES = {
    "derivative_ticker": (
        # Filters of then had the symbols as they were asked for.
        Version(v2.DerivativeTickerMapper, channel_filters("ticker")),
        _version(v3.DerivativeTickerMapper, "ticker"),
    ),
    "liquidation": (Version(v3.LiquidationMapper, lambda _: [Filter("liquidation")]),),
}

VENUES = {
    "bitget": Venue(formats=(v2.FORMAT, v3.FORMAT), versions=_market(), feed=make_feed("bitget")),
    "bitget-futures": Venue(
        formats=(v2.FORMAT, v3.FORMAT),
        versions=_market() | _DERIVATIVES,
        feed=make_feed("bitget-futures"),
    ),
}
