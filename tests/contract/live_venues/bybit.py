"""What Bybit sends live."""

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def bybit_book(channel: str, kind: str, symbol: str, number: int) -> Message:
    data = {"s": symbol, "b": [[str(number), "1"]], "a": [], "u": number, "seq": 2 * number}
    return {"topic": f"{channel}.{symbol}", "type": kind, "ts": TIME_MS, "data": data}


def bybit_trade(topic: str, symbol: str) -> Message:
    item = {"T": TIME_MS, "s": symbol, "S": "Buy", "v": "1", "p": "100.5", "i": "7"}
    return {"topic": topic, "type": "snapshot", "ts": TIME_MS, "data": [item]}


def bybit_venue(exchange: str, *symbols: str, books: str = "orderbook.50") -> LiveVenue:
    first, second = symbols
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        trade=lambda symbol: bybit_trade(f"publicTrade.{symbol.partition('-')[0]}", symbol),
        snapshot=lambda symbol, number: bybit_book(books, "snapshot", symbol, number),
        update=lambda symbol, _, number: bybit_book(books, "delta", symbol, number),
        error={"success": False, "ret_msg": "error:handler not found", "op": "subscribe"},
        half=lambda symbol: {"topic": f"publicTrade.{symbol}", "data": [{"s": symbol}]},
        has_numbers=True,
    )


VENUES = (
    bybit_venue("bybit", "BTCUSDT", "ETHUSDT"),
    bybit_venue("bybit-spot", "BTCUSDT", "ETHUSDC"),
    bybit_venue("bybit-options", "BTC-27NOV26-90000-C", "ETH-27NOV26-3000-P", books="orderbook.25"),
)
