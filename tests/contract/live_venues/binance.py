"""What Binance sends live."""

from typing import Any

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def binance_trade(symbol: str) -> Message:
    data = {"e": "trade", "E": TIME_MS, "s": symbol, "t": 7, "p": "100.5", "q": "1", "T": TIME_MS}
    return {"stream": f"{symbol.lower()}@trade", "data": data | {"m": False}}


def binance_update(symbol: str, previous: int, number: int) -> Message:
    ids = {"U": previous + 1, "u": number, "pu": previous}
    data = {"e": "depthUpdate", "E": TIME_MS, "s": symbol, **ids, "b": [[str(number), "1"]]}
    return {"stream": f"{symbol.lower()}@depth@100ms", "data": data | {"a": []}}


def binance_venue(exchange: str, *symbols: str) -> LiveVenue:
    first, second = symbols
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        trade=binance_trade,
        snapshot=lambda _, number: {
            "lastUpdateId": number,
            "bids": [[str(number), "1"]],
            "asks": [],
        },
        update=binance_update,
        error={"error": {"code": 2, "msg": "Invalid request"}, "id": 1},
        half=lambda symbol: {"stream": f"{symbol.lower()}@trade", "data": {"s": symbol}},
        begins_with_rest=True,
        has_numbers=True,
    )


def option_push(symbol: str, channel: str, **fields: Any) -> Message:
    data = {"E": TIME_MS, "T": TIME_MS, "s": symbol, **fields}
    return {"stream": f"{symbol.lower()}@{channel}", "data": data}


def option_book(symbol: str, number: int) -> Message:
    return option_push(symbol, "depth20@100ms", b=[[str(number), "1"]], a=[])


BINANCE_OPTIONS = LiveVenue(
    exchange="binance-european-options",
    symbols=("BTC-261225-90000-C", "ETH-261225-3000-P"),
    trade=lambda symbol: option_push(symbol, "optionTrade", t=7, p="100.5", q="1", m=False),
    snapshot=option_book,
    update=lambda symbol, _, number: option_book(symbol, number),
    error={"stream": "x", "data": {"e": "error", "code": "-1121", "msg": "Invalid symbol"}},
    half=lambda symbol: option_push(symbol, "optionTrade", t=7),
    sends_whole_books=True,
)

VENUES = (
    binance_venue("binance", "BTCUSDT", "ETHBTC"),
    binance_venue("binance-us", "BTCUSD", "ETHUSD"),
    binance_venue("binance-futures", "BTCUSDT", "ETHUSDT"),
    binance_venue("binance-delivery", "BTCUSD_PERP", "ETHUSD_PERP"),
    BINANCE_OPTIONS,
)
