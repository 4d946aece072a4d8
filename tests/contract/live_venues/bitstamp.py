"""What Bitstamp sends live."""

from typing import Any

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def bitstamp_push(channel: str, event: str, symbol: str, **data: Any) -> Message:
    return {"data": data, "channel": f"{channel}_{symbol.lower()}", "event": event}


def bitstamp_book(number: int) -> Message:
    micros = TIME_MS * 1000 + number
    times = {"timestamp": str(TIME_MS // 1000), "microtimestamp": str(micros)}
    return times | {"bids": [[str(number), "1"]], "asks": []}


BITSTAMP = LiveVenue(
    exchange="bitstamp",
    symbols=("BTCUSD", "ETHEUR"),
    trade=lambda symbol: bitstamp_push(
        *("live_trades", "trade", symbol),
        id=7,
        price=100.5,
        amount=1,
        type=0,
        microtimestamp=str(TIME_MS * 1000),
    ),
    snapshot=lambda _, number: bitstamp_book(number),
    update=lambda symbol, _, number: bitstamp_push(
        "diff_order_book", "data", symbol, **bitstamp_book(number)
    ),
    error={"event": "bts:error", "data": {"code": 4009, "message": "Bad subscription string."}},
    half=lambda symbol: bitstamp_push("live_trades", "trade", symbol, id=7),
    begins_with_rest=True,
    rest_url=lambda symbol: f"order_book/{symbol.lower()}?",
)

VENUES = (BITSTAMP,)
