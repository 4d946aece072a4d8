"""What OKX and OKCoin send live."""

from collections.abc import Callable
from typing import Any

from tests.contract.live_venues.venue import (
    TIME_MS,
    LiveVenue,
    Message,
    with_alternating_sum,
)


def okx_trade(channel: str) -> Callable[[str], Message]:
    return lambda symbol: {
        "arg": {"channel": channel, "instId": symbol},
        "data": [
            {"instId": symbol, "tradeId": "7", "px": "100.5", "sz": "1", "side": "buy"}
            | {"ts": str(TIME_MS)}
        ],
    }


def okx_book(action: str, symbol: str, previous: int, number: int) -> Message:
    item = {"asks": [], "bids": [[str(number), "1", "0", "1"]], "ts": str(TIME_MS)}
    ids = {"seqId": number, "prevSeqId": previous}
    arg = {"channel": "books", "instId": symbol}
    return {"arg": arg, "action": action, "data": [item | ids]}


def okx_venue(exchange: str, *symbols: str, trades: str = "trades-all") -> LiveVenue:
    first, second = symbols
    unknown = "Wrong URL or channel:books,instId:NONE doesn't exist."
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        trade=okx_trade(trades),
        snapshot=lambda symbol, number: okx_book("snapshot", symbol, -1, number),
        update=lambda symbol, previous, number: okx_book("update", symbol, previous, number),
        error={"event": "error", "code": "60012", "msg": "Invalid request"},
        half=lambda symbol: {"arg": {"channel": trades, "instId": symbol}, "data": [{}]},
        has_numbers=True,
        checked=with_alternating_sum,
        ignores_unknown_symbols={"event": "error", "code": "60018", "msg": unknown},
    )


def spread_push(channel: str, symbol: str, **fields: Any) -> Message:
    item = fields | {"ts": str(TIME_MS)}
    return {"arg": {"channel": channel, "sprdId": symbol}, "data": [item]}


def spread_book(symbol: str, number: int) -> Message:
    return spread_push("sprd-books5", symbol, bids=[[str(number), "1", "1"]], asks=[])


OKX_SPREADS = LiveVenue(
    exchange="okex-spreads",
    symbols=("BTC-USDT_BTC-USDT-SWAP", "ETH-USDT_ETH-USDT-SWAP"),
    trade=lambda symbol: spread_push(
        *("sprd-public-trades", symbol), sprdId=symbol, tradeId="7", px="-1", sz="1", side="buy"
    ),
    snapshot=spread_book,
    update=lambda symbol, _, number: spread_book(symbol, number),
    error={"event": "error", "code": "60018", "msg": "channel:x,sprdId:NONE doesn't exist."},
    half=lambda symbol: spread_push("sprd-public-trades", symbol, sprdId=symbol),
    sends_whole_books=True,
)

VENUES = (
    okx_venue("okex", "BTC-USDT", "ETH-USDT"),
    okx_venue("okex-futures", "BTC-USD-261225", "ETH-USD-261225"),
    okx_venue("okex-swap", "BTC-USDT-SWAP", "ETH-USDT-SWAP"),
    okx_venue("okex-options", "BTC-USD-261225-90000-C", "BTC-USD-261225-90000-P"),
    okx_venue("okcoin", "BTC-USD", "ETH-USD", trades="trades"),
    OKX_SPREADS,
)
