"""What Bitget sends live."""

from typing import Any

from tests.contract.live_venues.venue import (
    TIME_MS,
    LiveVenue,
    Message,
    with_alternating_sum,
)


def bitget_push(action: str, topic: str, symbol: str, **item: Any) -> Message:
    arg = {"instType": "spot", "topic": topic, "symbol": symbol}
    return {"action": action, "arg": arg, "data": [item], "ts": TIME_MS}


def bitget_book(action: str, symbol: str, previous: int, number: int) -> Message:
    ids = {"seq": number, "pseq": previous, "ts": str(TIME_MS)}
    return bitget_push(action, "books", symbol, a=[], b=[[str(number), "1"]], **ids)


def bitget_venue(exchange: str, *symbols: str) -> LiveVenue:
    first, second = symbols
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        trade=lambda symbol: bitget_push(
            *("update", "publicTrade", symbol), i="7", p="100.5", v="1", S="buy", T=str(TIME_MS)
        ),
        snapshot=lambda symbol, number: bitget_book("snapshot", symbol, 0, number),
        update=lambda symbol, previous, number: bitget_book("update", symbol, previous, number),
        error={"event": "error", "code": "30001", "msg": "doesn't exist"},
        half=lambda symbol: bitget_push("update", "publicTrade", symbol, i="7"),
        has_numbers=True,
        checked=with_alternating_sum,
    )


VENUES = (
    bitget_venue("bitget", "BTCUSDT", "ETHUSDC"),
    bitget_venue("bitget-futures", "BTCUSDT", "ETHPERP"),
)
