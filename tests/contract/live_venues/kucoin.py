"""What KuCoin sends live."""

from typing import Any

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def kucoin_push(topic: str, **data: Any) -> Message:
    return {"type": "message", "topic": f"/{topic}", "subject": "any", "data": data}


def kucoin_update(symbol: str, previous: int, number: int) -> Message:
    changes = {"asks": [], "bids": [[str(number), "1", str(number)]]}
    ids = {"sequenceStart": previous + 1, "sequenceEnd": number}
    return kucoin_push(f"market/level2:{symbol}", changes=changes, time=TIME_MS, **ids)


KUCOIN_TOKEN = {
    "code": "200000",
    "data": {
        "token": "t0ken",
        "instanceServers": [{"endpoint": "wss://ws-api.kucoin.com/"}],
    },
}
KUCOIN = LiveVenue(
    exchange="kucoin",
    symbols=("BTC-USDT", "ETH-BTC"),
    trade=lambda symbol: kucoin_push(
        f"market/match:{symbol}",
        symbol=symbol,
        side="buy",
        size="1",
        price="100.5",
        tradeId="7",
        time=str(TIME_MS * 1_000_000),
    ),
    snapshot=lambda _, number: {
        "code": "200000",
        "data": {"sequence": str(number), "bids": [[str(number), "1"]], "asks": []},
    },
    update=kucoin_update,
    error={"id": "1", "type": "error", "code": 404, "data": "topic is not found"},
    half=lambda symbol: kucoin_push(f"market/match:{symbol}", symbol=symbol),
    begins_with_rest=True,
    rest_url=lambda symbol: f"level2_100?symbol={symbol}",
    has_numbers=True,
)
KUCOIN_FUTURES = LiveVenue(
    exchange="kucoin-futures",
    symbols=("XBTUSDTM", "ETHUSDTM"),
    trade=lambda symbol: kucoin_push(
        f"contractMarket/execution:{symbol}",
        symbol=symbol,
        side="buy",
        size=1,
        price="100.5",
        tradeId="7",
        ts=TIME_MS * 1_000_000,
    ),
    snapshot=lambda _, number: {
        "code": "200000",
        "data": {"sequence": number, "bids": [[number, 1]], "asks": []},
    },
    update=lambda symbol, _, number: kucoin_push(
        f"contractMarket/level2:{symbol}",
        sequence=number,
        change=f"{number},buy,1",
        timestamp=TIME_MS,
    ),
    error={"id": "1", "type": "error", "code": 404, "data": "topic is not found"},
    half=lambda symbol: kucoin_push(f"contractMarket/execution:{symbol}", symbol=symbol),
    begins_with_rest=True,
    rest_url=lambda symbol: f"level2/snapshot?symbol={symbol}",
    has_numbers=True,
)

VENUES = (
    KUCOIN,
    KUCOIN_FUTURES,
)
