"""What dYdX sends live."""

from typing import Any

from tests.contract.live_venues.venue import ISO_MS, LiveVenue, Message


def dydx_message(kind: str, channel: str, symbol: str, **contents: Any) -> Message:
    head = {"type": kind, "connection_id": "c", "message_id": 1, "id": symbol}
    return head | {"channel": channel, "contents": contents}


DYDX_V4 = LiveVenue(
    exchange="dydx-v4",
    symbols=("BTC-USD", "ETH-USD"),
    trade=lambda symbol: dydx_message(
        *("channel_data", "v4_trades", symbol),
        trades=[{"id": "7", "size": "1", "price": "100.5", "side": "BUY", "createdAt": ISO_MS}],
    ),
    snapshot=lambda symbol, number: dydx_message(
        *("subscribed", "v4_orderbook", symbol),
        bids=[{"price": str(number), "size": "1"}],
        asks=[],
    ),
    update=lambda symbol, _, number: dydx_message(
        "channel_data", "v4_orderbook", symbol, bids=[[str(number), "1"]]
    ),
    error={
        "type": "error",
        "message": "Invalid subscription id",
        "channel": "v4_trades",
        "id": "X",
    },
    half=lambda symbol: dydx_message("channel_data", "v4_trades", symbol, trades=[{"id": "7"}]),
)

VENUES = (DYDX_V4,)
