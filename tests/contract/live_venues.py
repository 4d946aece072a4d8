"""What venues send live, in their own words, for the feed contract."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

TIME_MS = 1_788_220_800_000
ISO = "2026-09-01T00:00:00.123456Z"
ISO_MS = "2026-09-01T00:00:00.123Z"

Message: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LiveVenue:
    """The messages of one exchange; books have one bid, whose price is the number of the update."""

    exchange: str
    symbols: tuple[str, str]
    trade: Callable[[str], Message]
    snapshot: Callable[[str, int], Message]
    """A whole book; the body of a REST answer where `begins_with_rest`."""
    update: Callable[[str, int, int], Message]
    """From symbol, number of the update before and number of this one."""
    error: Message
    half: Callable[[str], Message]
    """A trade whose price is missing."""
    begins_with_rest: bool = False
    rest_url: Callable[[str], str] = lambda symbol: f"depth?symbol={symbol}&"
    """Part of the address that the snapshot of a symbol is asked by."""
    greeting: tuple[Any, ...] = ()
    """What comes first: old trades, or what the numbers of later messages stand for."""
    begins_with_request: bool = False
    """Whether a book is asked for on the socket, by a frame with its symbol under `req`."""
    sends_whole_books: bool = False
    """Whether every update is a snapshot."""
    has_numbers: bool = False
    """Whether updates are numbered, so that a gap is noticed."""
    ignores_unknown_symbols: Message | None = None


def bitmex_row(symbol: str, number: int) -> Message:
    return {"symbol": symbol, "id": number, "side": "Buy", "size": 1, "price": number} | {
        "timestamp": ISO_MS
    }


def bitmex_trade(symbol: str) -> Message:
    row = {"timestamp": ISO_MS, "symbol": symbol, "side": "Buy", "size": 1, "price": 100.5}
    return {"table": "trade", "action": "insert", "data": [row | {"trdMatchID": "m"}]}


BITMEX = LiveVenue(
    exchange="bitmex",
    symbols=("XBTUSD", "ETHUSD"),
    trade=bitmex_trade,
    snapshot=lambda symbol, number: {
        "table": "orderBookL2",
        "action": "partial",
        "data": [bitmex_row(symbol, number)],
    },
    update=lambda symbol, _, number: {
        "table": "orderBookL2",
        "action": "insert",
        "data": [bitmex_row(symbol, number)],
    },
    error={"status": 400, "error": "Unknown or expired symbol."},
    half=lambda symbol: {"table": "trade", "action": "insert", "data": [{"symbol": symbol}]},
)


def binance_trade(symbol: str) -> Message:
    data = {"e": "trade", "E": TIME_MS, "s": symbol, "t": 7, "p": "100.5", "q": "1", "T": TIME_MS}
    return {"stream": f"{symbol.lower()}@trade", "data": data | {"m": False}}


def binance_update(symbol: str, previous: int, number: int) -> Message:
    ids = {"U": previous + 1, "u": number, "pu": previous}
    data = {"e": "depthUpdate", "E": TIME_MS, "s": symbol, **ids, "b": [[str(number), "1"]]}
    return {"stream": f"{symbol.lower()}@depth@100ms", "data": data | {"a": []}}


def binance_venue(exchange: str, *symbols: str) -> LiveVenue:
    first, second = symbols
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        trade=binance_trade,
        snapshot=lambda _, number: {
            "lastUpdateId": number,
            "bids": [[str(number), "1"]],
            "asks": [],
        },
        update=binance_update,
        error={"error": {"code": 2, "msg": "Invalid request"}, "id": 1},
        half=lambda symbol: {"stream": f"{symbol.lower()}@trade", "data": {"s": symbol}},
        begins_with_rest=True,
        has_numbers=True,
    )


def option_push(symbol: str, channel: str, **fields: Any) -> Message:
    data = {"E": TIME_MS, "T": TIME_MS, "s": symbol, **fields}
    return {"stream": f"{symbol.lower()}@{channel}", "data": data}


def option_book(symbol: str, number: int) -> Message:
    return option_push(symbol, "depth20@100ms", b=[[str(number), "1"]], a=[])


BINANCE_OPTIONS = LiveVenue(
    exchange="binance-european-options",
    symbols=("BTC-261225-90000-C", "ETH-261225-3000-P"),
    trade=lambda symbol: option_push(symbol, "optionTrade", t=7, p="100.5", q="1", m=False),
    snapshot=option_book,
    update=lambda symbol, _, number: option_book(symbol, number),
    error={"stream": "x", "data": {"e": "error", "code": "-1121", "msg": "Invalid symbol"}},
    half=lambda symbol: option_push(symbol, "optionTrade", t=7),
    sends_whole_books=True,
)


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


def okx_trade(channel: str) -> Callable[[str], Message]:
    return lambda symbol: {
        "arg": {"channel": channel, "instId": symbol},
        "data": [
            {"instId": symbol, "tradeId": "7", "px": "100.5", "sz": "1", "side": "buy"}
            | {"ts": str(TIME_MS)}
        ],
    }


def okx_book(action: str, symbol: str, previous: int, number: int) -> Message:
    item = {"asks": [], "bids": [[str(number), "1", "0", "1"]], "ts": str(TIME_MS)}
    ids = {"seqId": number, "prevSeqId": previous}
    arg = {"channel": "books", "instId": symbol}
    return {"arg": arg, "action": action, "data": [item | ids]}


def okx_venue(exchange: str, *symbols: str, trades: str = "trades-all") -> LiveVenue:
    first, second = symbols
    unknown = "Wrong URL or channel:books,instId:NONE doesn't exist."
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        trade=okx_trade(trades),
        snapshot=lambda symbol, number: okx_book("snapshot", symbol, -1, number),
        update=lambda symbol, previous, number: okx_book("update", symbol, previous, number),
        error={"event": "error", "code": "60012", "msg": "Invalid request"},
        half=lambda symbol: {"arg": {"channel": trades, "instId": symbol}, "data": [{}]},
        has_numbers=True,
        ignores_unknown_symbols={"event": "error", "code": "60018", "msg": unknown},
    )


def spread_push(channel: str, symbol: str, **fields: Any) -> Message:
    item = fields | {"ts": str(TIME_MS)}
    return {"arg": {"channel": channel, "sprdId": symbol}, "data": [item]}


def spread_book(symbol: str, number: int) -> Message:
    return spread_push("sprd-books5", symbol, bids=[[str(number), "1", "1"]], asks=[])


OKX_SPREADS = LiveVenue(
    exchange="okex-spreads",
    symbols=("BTC-USDT_BTC-USDT-SWAP", "ETH-USDT_ETH-USDT-SWAP"),
    trade=lambda symbol: spread_push(
        *("sprd-public-trades", symbol), sprdId=symbol, tradeId="7", px="-1", sz="1", side="buy"
    ),
    snapshot=spread_book,
    update=lambda symbol, _, number: spread_book(symbol, number),
    error={"event": "error", "code": "60018", "msg": "channel:x,sprdId:NONE doesn't exist."},
    half=lambda symbol: spread_push("sprd-public-trades", symbol, sprdId=symbol),
    sends_whole_books=True,
)

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
)


def phemex_book(kind: str) -> Callable[[str, int], Message]:
    return lambda symbol, number: {
        "book": {"asks": [], "bids": [[number * 10_000, 1]]},
        "depth": 30,
        "symbol": symbol,
        "timestamp": TIME_MS * 1_000_000,
        "type": kind,
    }


PHEMEX = LiveVenue(
    exchange="phemex",
    symbols=("BTCUSD", "ETHUSD"),
    trade=lambda symbol: (
        {"symbol": symbol, "type": "incremental"}
        | {"trades": [[TIME_MS * 1_000_000, "Buy", 1_005_000, 1]]}
    ),
    snapshot=phemex_book("snapshot"),
    update=lambda symbol, _, number: phemex_book("incremental")(symbol, number),
    error={"error": {"code": 6001, "message": "invalid argument"}, "id": 0, "result": None},
    half=lambda symbol: {"symbol": symbol, "type": "incremental", "trades": [[1]]},
)


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


def bybit_book(channel: str, kind: str, symbol: str, number: int) -> Message:
    data = {"s": symbol, "b": [[str(number), "1"]], "a": [], "u": number, "seq": 2 * number}
    return {"topic": f"{channel}.{symbol}", "type": kind, "ts": TIME_MS, "data": data}


def bybit_trade(topic: str, symbol: str) -> Message:
    item = {"T": TIME_MS, "s": symbol, "S": "Buy", "v": "1", "p": "100.5", "i": "7"}
    return {"topic": topic, "type": "snapshot", "ts": TIME_MS, "data": [item]}


def bybit_venue(exchange: str, *symbols: str, books: str = "orderbook.50") -> LiveVenue:
    first, second = symbols
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        trade=lambda symbol: bybit_trade(f"publicTrade.{symbol.partition('-')[0]}", symbol),
        snapshot=lambda symbol, number: bybit_book(books, "snapshot", symbol, number),
        update=lambda symbol, _, number: bybit_book(books, "delta", symbol, number),
        error={"success": False, "ret_msg": "error:handler not found", "op": "subscribe"},
        half=lambda symbol: {"topic": f"publicTrade.{symbol}", "data": [{"s": symbol}]},
        has_numbers=True,
    )


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


def gemini_book(symbol: str, number: int) -> Message:
    ids = {"E": TIME_MS * 1_000_000, "s": symbol.lower(), "U": number, "u": number}
    return {"e": "depthUpdate"} | ids | {"b": [[str(number), "1"]], "a": []}


GEMINI = LiveVenue(
    exchange="gemini",
    symbols=("BTCUSD", "ETHUSD"),
    trade=lambda symbol: (
        {"E": TIME_MS * 1_000_000, "s": symbol.lower(), "t": 7}
        | {"p": "100.5", "q": "1", "m": False}
    ),
    snapshot=gemini_book,
    update=lambda symbol, _, number: gemini_book(symbol, number),
    error={"id": 1, "status": 400, "error": {"code": -1121, "msg": "Invalid symbol."}},
    half=lambda symbol: {"E": TIME_MS * 1_000_000, "s": symbol.lower(), "t": 7},
)


def crypto_com_push(channel: str, subscription: str, symbol: str, item: Message) -> Message:
    result = {"instrument_name": symbol, "subscription": subscription, "channel": channel}
    return {"id": -1, "method": "subscribe", "code": 0, "result": result | {"data": [item]}}


def crypto_com_book(symbol: str, number: int) -> Message:
    item = {"bids": [[str(number), "1", "1"]], "asks": [], "t": TIME_MS, "u": number}
    return crypto_com_push("book", f"book.{symbol}.50", symbol, item)


def crypto_com_update(symbol: str, previous: int, number: int) -> Message:
    sides = {"bids": [[str(number), "1", "1"]], "asks": []}
    item = {"update": sides, "t": TIME_MS, "u": number, "pu": previous}
    return crypto_com_push("book.update", f"book.{symbol}.50", symbol, item)


def crypto_com_trade(symbol: str, **fields: Any) -> Message:
    return crypto_com_push("trade", f"trade.{symbol}", symbol, {"d": "7", "t": TIME_MS, **fields})


CRYPTO_COM = LiveVenue(
    exchange="crypto-com",
    symbols=("BTC_USDT", "BTCUSD-PERP"),
    trade=lambda symbol: crypto_com_trade(symbol, p="100.5", q="1", s="BUY"),
    snapshot=crypto_com_book,
    update=crypto_com_update,
    error={"id": 1, "method": "subscribe", "code": 10004, "message": "BAD_REQUEST"},
    half=crypto_com_trade,
    has_numbers=True,
    ignores_unknown_symbols={"id": 1, "method": "subscribe", "code": 40003, "message": "unknown"},
)


def upbit_book(symbol: str, number: int) -> Message:
    unit = {"ask_price": 0, "bid_price": number, "ask_size": 0, "bid_size": 1}
    head = {"type": "orderbook", "code": symbol, "timestamp": TIME_MS}
    return head | {"orderbook_units": [unit]}


UPBIT = LiveVenue(
    exchange="upbit",
    symbols=("KRW-BTC", "KRW-ETH"),
    trade=lambda symbol: (
        {"type": "trade", "code": symbol, "trade_timestamp": TIME_MS, "trade_price": 100.5}
        | {"trade_volume": 1, "ask_bid": "BID", "sequential_id": 7}
    ),
    snapshot=upbit_book,
    update=lambda symbol, _, number: upbit_book(symbol, number),
    error={"type": "error", "error": {"name": "NO_CODES", "message": "no codes"}},
    half=lambda symbol: {"type": "trade", "code": symbol},
    sends_whole_books=True,
)


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
    )


CRYPTOFACILITIES = LiveVenue(
    exchange="cryptofacilities",
    symbols=("PI_XBTUSD", "PF_ETHUSD"),
    trade=lambda symbol: (
        {"feed": "trade", "product_id": symbol, "uid": "u", "side": "sell"}
        | {"type": "fill", "seq": 3, "time": TIME_MS, "qty": 1, "price": 100.5}
    ),
    snapshot=lambda symbol, number: (
        {"feed": "book_snapshot", "product_id": symbol, "timestamp": TIME_MS, "seq": number}
        | {"bids": [{"price": number, "qty": 1}], "asks": []}
    ),
    update=lambda symbol, _, number: (
        {"feed": "book", "product_id": symbol, "side": "buy", "seq": number}
        | {"price": number, "qty": 1, "timestamp": TIME_MS}
    ),
    error={"event": "error", "message": "Invalid product id"},
    half=lambda symbol: {"feed": "trade", "product_id": symbol},
    has_numbers=True,
)


def hyperliquid_trade(symbol: str) -> Message:
    item = {"coin": symbol, "side": "B", "px": "100.5", "sz": "1", "time": TIME_MS, "tid": 7}
    return {"channel": "trades", "data": [item]}


def hyperliquid_book(symbol: str, number: int) -> Message:
    levels = [[{"px": str(number), "sz": "1", "n": 1}], []]
    data = {"coin": symbol, "time": TIME_MS, "fast": True, "levels": levels}
    return {"channel": "l2Book", "data": data}


HYPERLIQUID = LiveVenue(
    exchange="hyperliquid",
    symbols=("BTC", "SOL"),
    # The first trades of a coin are old ones.
    greeting=(hyperliquid_trade("BTC"), hyperliquid_trade("SOL")),
    trade=hyperliquid_trade,
    snapshot=hyperliquid_book,
    update=lambda symbol, _, number: hyperliquid_book(symbol, number),
    error={"channel": "error", "data": "Invalid subscription"},
    half=lambda symbol: {"channel": "trades", "data": [{"coin": symbol}]},
    sends_whole_books=True,
)


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


def bitfinex_number(channel: str, symbol: str) -> int:
    return len(channel) * 1000 + len(symbol) * 100 + ord(symbol[0])


def bitfinex_subscribed(channel: str, symbol: str) -> Message:
    number = bitfinex_number(channel, symbol)
    ack = {"event": "subscribed", "channel": channel, "chanId": number, "pair": symbol}
    return ack | {"prec": "P0", "symbol": f"t{symbol}"}


def bitfinex_array(channel: str, symbol: str, *entries: Any) -> Any:
    return [bitfinex_number(channel, symbol), *entries, 1, TIME_MS]


def bitfinex_venue(exchange: str, *symbols: str) -> LiveVenue:
    first, second = symbols
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        greeting=tuple(
            bitfinex_subscribed(channel, symbol)
            for channel in ("trades", "book")
            for symbol in symbols
        ),
        trade=lambda symbol: bitfinex_array("trades", symbol, "te", [7, TIME_MS, 1, 100.5]),
        snapshot=lambda symbol, number: bitfinex_array("book", symbol, [[number, 1, 1]]),
        update=lambda symbol, _, number: bitfinex_array("book", symbol, [number, 1, 1]),
        error={"event": "error", "msg": "symbol: invalid", "code": 10300},
        half=lambda symbol: bitfinex_array("trades", symbol, "te", [7]),
    )


VENUES = (
    BITMEX,
    binance_venue("binance", "BTCUSDT", "ETHBTC"),
    binance_venue("binance-us", "BTCUSD", "ETHUSD"),
    binance_venue("binance-futures", "BTCUSDT", "ETHUSDT"),
    binance_venue("binance-delivery", "BTCUSD_PERP", "ETHUSD_PERP"),
    BINANCE_OPTIONS,
    DERIBIT,
    COINBASE,
    COINBASE_INTERNATIONAL,
    okx_venue("okex", "BTC-USDT", "ETH-USDT"),
    okx_venue("okex-futures", "BTC-USD-261225", "ETH-USD-261225"),
    okx_venue("okex-swap", "BTC-USDT-SWAP", "ETH-USDT-SWAP"),
    okx_venue("okex-options", "BTC-USD-261225-90000-C", "BTC-USD-261225-90000-P"),
    okx_venue("okcoin", "BTC-USD", "ETH-USD", trades="trades"),
    OKX_SPREADS,
    KRAKEN,
    PHEMEX,
    BITSTAMP,
    GEMINI,
    CRYPTO_COM,
    UPBIT,
    KUCOIN,
    KUCOIN_FUTURES,
    GATE_IO,
    GATE_IO_FUTURES,
    bitget_venue("bitget", "BTCUSDT", "ETHUSDC"),
    bitget_venue("bitget-futures", "BTCUSDT", "ETHPERP"),
    bybit_venue("bybit", "BTCUSDT", "ETHUSDT"),
    bybit_venue("bybit-spot", "BTCUSDT", "ETHUSDC"),
    bybit_venue("bybit-options", "BTC-27NOV26-90000-C", "ETH-27NOV26-3000-P", books="orderbook.25"),
    bitfinex_venue("bitfinex", "BTCUSD", "ETHUSD"),
    bitfinex_venue("bitfinex-derivatives", "BTCF0:USTF0", "ETHF0:USTF0"),
    CRYPTOFACILITIES,
    HYPERLIQUID,
    DYDX_V4,
    HUOBI,
    huobi_contracts("huobi-dm", "BTC_CW", "ETH_CQ"),
    huobi_contracts("huobi-dm-swap", "BTC-USD", "ETH-USD"),
    huobi_contracts("huobi-dm-linear-swap", "BTC-USDT", "ETH-USDT"),
)
