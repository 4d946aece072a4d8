"""What Hyperliquid sends live."""

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def hyperliquid_trade(symbol: str) -> Message:
    item = {"coin": symbol, "side": "B", "px": "100.5", "sz": "1", "time": TIME_MS, "tid": 7}
    return {"channel": "trades", "data": [item]}


def hyperliquid_book(symbol: str, number: int) -> Message:
    levels = [[{"px": str(number), "sz": "1", "n": 1}], []]
    data = {"coin": symbol, "time": TIME_MS, "fast": True, "levels": levels}
    return {"channel": "l2Book", "data": data}


HYPERLIQUID = LiveVenue(
    exchange="hyperliquid",
    symbols=("BTC", "SOL"),
    # The first trades of a coin are old ones.
    greeting=(hyperliquid_trade("BTC"), hyperliquid_trade("SOL")),
    trade=hyperliquid_trade,
    snapshot=hyperliquid_book,
    update=lambda symbol, _, number: hyperliquid_book(symbol, number),
    error={"channel": "error", "data": "Invalid subscription"},
    half=lambda symbol: {"channel": "trades", "data": [{"coin": symbol}]},
    sends_whole_books=True,
)

VENUES = (HYPERLIQUID,)
