"""What Crypto.com sends live."""

from typing import Any

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def crypto_com_push(channel: str, subscription: str, symbol: str, item: Message) -> Message:
    result = {"instrument_name": symbol, "subscription": subscription, "channel": channel}
    return {"id": -1, "method": "subscribe", "code": 0, "result": result | {"data": [item]}}


def crypto_com_book(symbol: str, number: int) -> Message:
    item = {"bids": [[str(number), "1", "1"]], "asks": [], "t": TIME_MS, "u": number}
    return crypto_com_push("book", f"book.{symbol}.50", symbol, item)


def crypto_com_update(symbol: str, previous: int, number: int) -> Message:
    sides = {"bids": [[str(number), "1", "1"]], "asks": []}
    item = {"update": sides, "t": TIME_MS, "u": number, "pu": previous}
    return crypto_com_push("book.update", f"book.{symbol}.50", symbol, item)


def crypto_com_trade(symbol: str, **fields: Any) -> Message:
    return crypto_com_push("trade", f"trade.{symbol}", symbol, {"d": "7", "t": TIME_MS, **fields})


CRYPTO_COM = LiveVenue(
    exchange="crypto-com",
    symbols=("BTC_USDT", "BTCUSD-PERP"),
    trade=lambda symbol: crypto_com_trade(symbol, p="100.5", q="1", s="BUY"),
    snapshot=crypto_com_book,
    update=crypto_com_update,
    error={"id": 1, "method": "subscribe", "code": 10004, "message": "BAD_REQUEST"},
    half=crypto_com_trade,
    has_numbers=True,
    ignores_unknown_symbols={"id": 1, "method": "subscribe", "code": 40003, "message": "unknown"},
)

VENUES = (CRYPTO_COM,)
