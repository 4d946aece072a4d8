"""What Kraken sends live."""

from zlib import crc32

from tests.contract.live_venues.venue import ISO, LiveVenue, Message


def checked_book(message: Message, bids: list[int]) -> Message:
    [item] = message["data"]
    checksum = crc32("".join(f"{price}1" for price in bids).encode())
    return message | {"data": [item | {"checksum": checksum}]}


KRAKEN = LiveVenue(
    exchange="kraken",
    symbols=("BTC/USD", "ETH/EUR"),
    trade=lambda symbol: {
        "channel": "trade",
        "type": "update",
        "data": [
            {"symbol": symbol, "side": "buy", "price": 100.5, "qty": 1, "trade_id": 7}
            | {"timestamp": ISO}
        ],
    },
    snapshot=lambda symbol, number: {
        "channel": "book",
        "type": "snapshot",
        "data": [{"symbol": symbol, "bids": [{"price": number, "qty": 1}], "timestamp": ISO}],
    },
    update=lambda symbol, _, number: {
        "channel": "book",
        "type": "update",
        "data": [{"symbol": symbol, "bids": [{"price": number, "qty": 1}], "timestamp": ISO}],
    },
    error={"error": "Currency pair not supported", "method": "subscribe", "success": False},
    half=lambda symbol: {"channel": "trade", "type": "update", "data": [{"symbol": symbol}]},
    checked=checked_book,
)

VENUES = (KRAKEN,)
