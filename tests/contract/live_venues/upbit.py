"""What Upbit sends live."""

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def upbit_book(symbol: str, number: int) -> Message:
    unit = {"ask_price": 0, "bid_price": number, "ask_size": 0, "bid_size": 1}
    head = {"type": "orderbook", "code": symbol, "timestamp": TIME_MS}
    return head | {"orderbook_units": [unit]}


UPBIT = LiveVenue(
    exchange="upbit",
    symbols=("KRW-BTC", "KRW-ETH"),
    trade=lambda symbol: (
        {"type": "trade", "code": symbol, "trade_timestamp": TIME_MS, "trade_price": 100.5}
        | {"trade_volume": 1, "ask_bid": "BID", "sequential_id": 7}
    ),
    snapshot=upbit_book,
    update=lambda symbol, _, number: upbit_book(symbol, number),
    error={"type": "error", "error": {"name": "NO_CODES", "message": "no codes"}},
    half=lambda symbol: {"type": "trade", "code": symbol},
    sends_whole_books=True,
)

VENUES = (UPBIT,)
