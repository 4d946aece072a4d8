"""What Coinbase sends live."""

from typing import Any

from tests.contract.live_venues.venue import ISO, ISO_MS, LiveVenue, Message

COINBASE = LiveVenue(
    exchange="coinbase",
    symbols=("BTC-USD", "ETH-USD"),
    trade=lambda symbol: (
        {"type": "match", "trade_id": 7, "side": "buy", "time": ISO}
        | {"size": "1", "price": "100.5", "product_id": symbol}
    ),
    snapshot=lambda symbol, number: (
        {"type": "snapshot", "product_id": symbol}
        | {"bids": [[str(number), "1"]], "asks": [], "time": ISO}
    ),
    update=lambda symbol, _, number: (
        {"type": "l2update", "product_id": symbol}
        | {"changes": [["buy", str(number), "1"]], "time": ISO}
    ),
    error={"type": "error", "message": "Failed to subscribe", "reason": "no such product"},
    half=lambda symbol: {"type": "match", "product_id": symbol},
)


def international(channel: str, kind: str, symbol: str, **fields: Any) -> Message:
    head = {"channel": channel, "type": kind, "time": ISO_MS, "product_id": symbol}
    return {"sequence": 1} | fields | head


COINBASE_INTERNATIONAL = LiveVenue(
    exchange="coinbase-international",
    symbols=("BTC-PERP", "ETH-PERP"),
    trade=lambda symbol: international(
        *("MATCH", "UPDATE", symbol), match_id="7", trade_price="1", trade_qty="2"
    ),
    snapshot=lambda symbol, number: international(
        *("LEVEL2", "SNAPSHOT", symbol), bids=[[str(number), "1"]], asks=[]
    ),
    update=lambda symbol, _, number: international(
        "LEVEL2", "UPDATE", symbol, changes=[["BUY", str(number), "1"]]
    ),
    error={"channel": "MATCH", "type": "REJECT", "reason": "Unauthorized"},
    half=lambda symbol: international("MATCH", "UPDATE", symbol),
)

VENUES = (
    COINBASE,
    COINBASE_INTERNATIONAL,
)
