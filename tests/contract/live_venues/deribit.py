"""What Deribit sends live."""

from typing import Any

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def deribit_push(channel: str, data: Any) -> Message:
    params = {"channel": channel, "data": data}
    return {"jsonrpc": "2.0", "method": "subscription", "params": params}


def deribit_book(symbol: str, number: int, **fields: Any) -> Message:
    data = {"instrument_name": symbol, "timestamp": TIME_MS, "change_id": number, **fields}
    levels = {"bids": [["new", number, 1]], "asks": []}
    return deribit_push(f"book.{symbol}.100ms", data | levels)


DERIBIT = LiveVenue(
    exchange="deribit",
    symbols=("BTC-PERPETUAL", "ETH-PERPETUAL"),
    trade=lambda symbol: deribit_push(
        f"trades.{symbol}.100ms",
        [
            {"trade_id": "7", "timestamp": TIME_MS, "price": 100.5, "amount": 1}
            | {"instrument_name": symbol, "direction": "buy"}
        ],
    ),
    snapshot=lambda symbol, number: deribit_book(symbol, number, type="snapshot"),
    update=lambda symbol, previous, number: deribit_book(
        symbol, number, type="change", prev_change_id=previous
    ),
    error={"jsonrpc": "2.0", "id": 3, "error": {"code": -32602, "message": "Invalid params"}},
    half=lambda symbol: deribit_push(f"trades.{symbol}.100ms", [{"instrument_name": symbol}]),
    has_numbers=True,
)

VENUES = (DERIBIT,)
