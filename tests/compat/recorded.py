"""Two recorded minutes of BitMEX, and what makes more."""

import json
from typing import Any

FROM, TO = "2024-03-01", "2024-03-01T00:02"


def trade(second: str, price: float, side: str = "Buy", symbol: str = "XBTUSD") -> bytes:
    """A recorded BitMEX trade that arrived at `00:MM:SS.ffffff`."""
    message = {
        "table": "trade",
        "action": "insert",
        "data": [
            {
                "timestamp": f"2024-03-01T00:{second[:9]}Z",
                "symbol": symbol,
                "side": side,
                "size": 100,
                "price": price,
                "trdMatchID": f"id-{second}",
            }
        ],
    }
    return recorded(second, message)


def book(second: str, action: str, *levels: tuple[str, float, float]) -> bytes:
    """A recorded BitMEX book message with (side, price, size) levels."""
    items = [
        {"symbol": "XBTUSD", "id": int(price * 10), "side": side, "size": size, "price": price}
        for side, price, size in levels
    ]
    return recorded(second, {"table": "orderBookL2", "action": action, "data": items})


def recorded(second: str, message: Any) -> bytes:
    text = json.dumps(message, separators=(",", ":"))
    return f"2024-03-01T00:{second}1Z {text}\n".encode()


BITMEX = {
    ("bitmex", "2024-03-01T00:00"): b"\n"
    + book("00:00.100000", "partial", ("Buy", 100.0, 5), ("Sell", 101.0, 7))
    + trade("00:01.000000", 101.0)
    + book("00:02.000000", "update", ("Buy", 100.0, 6))
    + b"\n\n"
    + trade("00:30.000000", 102.0, "Sell"),
    ("bitmex", "2024-03-01T00:01"): b"\n"
    + book("01:00.000000", "partial", ("Buy", 99.0, 1), ("Sell", 100.5, 2))
    + trade("01:01.000000", 100.5, symbol="ETHUSD"),
}
