"""What Gate.io sends live."""

from typing import Any

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def gate_io_push(channel: str, event: str, result: Any) -> Message:
    head = {"time": TIME_MS // 1000, "time_ms": TIME_MS, "channel": channel, "event": event}
    return head | {"result": result}


def gate_io_book(symbol: str, **fields: Any) -> Message:
    result = {"t": TIME_MS, "s": f"ob.{symbol}.400", "a": [], **fields}
    return {"channel": "spot.obu", "result": result, "time_ms": TIME_MS, "event": "update"}


GATE_IO_ERROR = {"time": 1, "event": "subscribe", "error": {"code": 2, "message": "unknown"}}
GATE_IO = LiveVenue(
    exchange="gate-io",
    symbols=("BTC_USDT", "ETH_BTC"),
    trade=lambda symbol: gate_io_push(
        *("spot.trades", "update"),
        {"id": 7, "create_time_ms": f"{TIME_MS}.0", "side": "buy", "currency_pair": symbol}
        | {"amount": "1", "price": "100.5"},
    ),
    snapshot=lambda symbol, number: gate_io_book(
        symbol, full=True, u=number, b=[[str(number), "1"]]
    ),
    update=lambda symbol, previous, number: gate_io_book(
        symbol, U=previous + 1, u=number, b=[[str(number), "1"]]
    ),
    error=GATE_IO_ERROR | {"channel": "spot.trades"},
    half=lambda symbol: gate_io_push("spot.trades", "update", {"currency_pair": symbol}),
    has_numbers=True,
)
GATE_IO_FUTURES = LiveVenue(
    exchange="gate-io-futures",
    symbols=("BTC_USDT", "ETH_USDT"),
    trade=lambda symbol: gate_io_push(
        *("futures.trades", "update"),
        [{"contract": symbol, "size": "1", "id": 7, "create_time_ms": TIME_MS, "price": "100.5"}],
    ),
    snapshot=lambda symbol, number: gate_io_push(
        *("futures.order_book", "all"),
        {"t": TIME_MS, "contract": symbol, "asks": [], "bids": [{"p": str(number), "s": "1"}]},
    ),
    update=lambda symbol, _, number: gate_io_push(
        *("futures.order_book", "update"),
        [{"p": str(number), "s": "1", "c": symbol, "t": TIME_MS}],
    ),
    error=GATE_IO_ERROR | {"channel": "futures.trades"},
    half=lambda symbol: gate_io_push("futures.trades", "update", [{"contract": symbol}]),
)

VENUES = (
    GATE_IO,
    GATE_IO_FUTURES,
)
