"""What BitMEX sends live."""

from tests.contract.live_venues.venue import ISO_MS, LiveVenue, Message


def bitmex_row(symbol: str, number: int) -> Message:
    return {"symbol": symbol, "id": number, "side": "Buy", "size": 1, "price": number} | {
        "timestamp": ISO_MS
    }


def bitmex_trade(symbol: str) -> Message:
    row = {"timestamp": ISO_MS, "symbol": symbol, "side": "Buy", "size": 1, "price": 100.5}
    return {"table": "trade", "action": "insert", "data": [row | {"trdMatchID": "m"}]}


BITMEX = LiveVenue(
    exchange="bitmex",
    symbols=("XBTUSD", "ETHUSD"),
    trade=bitmex_trade,
    snapshot=lambda symbol, number: {
        "table": "orderBookL2",
        "action": "partial",
        "data": [bitmex_row(symbol, number)],
    },
    update=lambda symbol, _, number: {
        "table": "orderBookL2",
        "action": "insert",
        "data": [bitmex_row(symbol, number)],
    },
    error={"status": 400, "error": "Unknown or expired symbol."},
    half=lambda symbol: {"table": "trade", "action": "insert", "data": [{"symbol": symbol}]},
)

VENUES = (BITMEX,)
