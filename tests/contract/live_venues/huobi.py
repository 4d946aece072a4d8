"""What Huobi sends live."""

from typing import Any

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def huobi_push(symbol: str, channel: str, **fields: Any) -> Message:
    return {"ch": f"market.{symbol}.{channel}", "ts": TIME_MS, "tick": fields}


def huobi_trade(symbol: str) -> Message:
    item = {"id": 10**20, "ts": TIME_MS, "price": 100.5, "amount": 1, "direction": "buy"}
    return huobi_push(symbol, "trade.detail", data=[item])


def huobi_depth(event: str, symbol: str, number: int) -> Message:
    fields = {"event": event, "version": number, "bids": [[number, 1]], "asks": []}
    return huobi_push(symbol, "depth.size_150.high_freq", **fields)


HUOBI = LiveVenue(
    exchange="huobi",
    symbols=("btcusdt", "ethbtc"),
    trade=huobi_trade,
    snapshot=lambda symbol, number: {
        "id": "1",
        "rep": f"market.{symbol}.mbp.400",
        "status": "ok",
        "ts": TIME_MS,
        "data": {"seqNum": number, "bids": [[number, 1]], "asks": []},
    },
    update=lambda symbol, previous, number: huobi_push(
        symbol, "mbp.400", seqNum=number, prevSeqNum=previous, bids=[[number, 1]], asks=[]
    ),
    error={"status": "error", "id": "1", "err-code": "bad-request", "err-msg": "invalid topic"},
    half=lambda symbol: huobi_push(symbol, "trade.detail", data=[{"ts": TIME_MS}]),
    begins_with_request=True,
    has_numbers=True,
    ignores_unknown_symbols={"status": "error", "id": "1", "err-msg": "invalid symbol none"},
)


def huobi_contracts(exchange: str, *symbols: str) -> LiveVenue:
    first, second = symbols
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        trade=huobi_trade,
        snapshot=lambda symbol, number: huobi_depth("snapshot", symbol, number),
        update=lambda symbol, _, number: huobi_depth("update", symbol, number),
        error=HUOBI.error,
        half=HUOBI.half,
        has_numbers=True,
        ignores_unknown_symbols=HUOBI.ignores_unknown_symbols,
    )


VENUES = (
    HUOBI,
    huobi_contracts("huobi-dm", "BTC_CW", "ETH_CQ"),
    huobi_contracts("huobi-dm-swap", "BTC-USD", "ETH-USD"),
    huobi_contracts("huobi-dm-linear-swap", "BTC-USDT", "ETH-USDT"),
)
