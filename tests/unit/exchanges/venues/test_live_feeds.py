"""What venues want from those who stream them, beside what the feed contract says."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access, Feed, FeedConnection, Verdict
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import feed_of, live_filters
from tardis_machine.model.errors import RequestError, UnsupportedError
from tardis_machine.model.requests import Filter

VERDICTS = [
    ("bitmex", {"info": "Welcome"}, Verdict.IGNORED),
    ("bitmex", {"success": True, "subscribe": "trade:XBTUSD"}, Verdict.IGNORED),
    ("bitmex", {"success": False, "subscribe": "trade:NONE"}, Verdict.ERROR),
    ("bitmex", {"status": 400, "error": "Unknown table: x"}, Verdict.ERROR),
    ("binance", {"result": None, "id": 4}, Verdict.IGNORED),
    ("binance", {"error": {"code": 3, "msg": "bad"}, "id": 4}, Verdict.ERROR),
    ("binance-futures", {"code": -1, "msg": "slow down"}, Verdict.ERROR),
    ("binance-european-options", {"result": None, "id": 4}, Verdict.IGNORED),
    ("binance-european-options", {"stream": "a@b", "data": [{"e": "error"}]}, Verdict.IGNORED),
    ("binance-european-options", {"stream": "x", "data": {"e": "error"}}, Verdict.ERROR),
    ("binance-european-options", {"error": {"code": 3, "msg": "bad"}, "id": 4}, Verdict.ERROR),
    ("deribit", {"jsonrpc": "2.0", "id": 3, "result": []}, Verdict.IGNORED),
    ("deribit", {"method": "heartbeat", "params": {"type": "heartbeat"}}, Verdict.HEARTBEAT),
    ("deribit", {"id": 3, "error": {"code": 11050}}, Verdict.ERROR),
    ("coinbase", {"type": "subscriptions", "channels": []}, Verdict.IGNORED),
    ("coinbase", {"type": "error", "message": "no such product"}, Verdict.ERROR),
    ("coinbase-international", {"channel": "SUBSCRIPTIONS", "type": "SNAPSHOT"}, Verdict.IGNORED),
    ("coinbase-international", {"channel": "LEVEL2", "type": "REJECT"}, Verdict.ERROR),
    ("okex", {"event": "subscribe", "arg": {"channel": "books"}}, Verdict.IGNORED),
    ("okex", {"event": "error", "code": "60011", "msg": "Please log in"}, Verdict.ERROR),
    (
        "okex",
        {"event": "error", "msg": "Wrong URL or channel:books,instId:X doesn't exist."},
        Verdict.REJECTED,
    ),
    ("okex-spreads", {"event": "subscribe", "arg": {"channel": "sprd-books5"}}, Verdict.IGNORED),
    (
        "okex-spreads",
        {"event": "error", "msg": "channel:sprd-books5,sprdId:X doesn't exist."},
        Verdict.ERROR,
    ),
    ("kraken", {"channel": "heartbeat"}, Verdict.HEARTBEAT),
    ("kraken", {"channel": "status", "data": []}, Verdict.IGNORED),
    ("kraken", {"method": "subscribe", "success": False, "error": "no pair"}, Verdict.ERROR),
    ("kraken", {"event": "error", "errorMessage": "no"}, Verdict.ERROR),
    ("bitfinex", {"event": "info", "version": 2}, Verdict.IGNORED),
    ("bitfinex", {"event": "error", "code": 10_300}, Verdict.ERROR),
    ("bitfinex", [17, "hb", 3, 1_788_220_800_123], Verdict.HEARTBEAT),
    ("bitfinex", [17, [1, 2, 3], 3, 1_788_220_800_123], Verdict.IGNORED),
    ("cryptofacilities", {"event": "info", "version": 1}, Verdict.IGNORED),
    ("cryptofacilities", {"event": "alert", "message": "subscribed already"}, Verdict.IGNORED),
    ("cryptofacilities", {"event": "error", "message": "no such product"}, Verdict.ERROR),
    ("cryptofacilities", {"event": "subscribed", "feed": "heartbeat"}, Verdict.IGNORED),
    ("cryptofacilities", {"feed": "heartbeat", "time": 1_788_220_800_123}, Verdict.HEARTBEAT),
    ("hyperliquid", {"channel": "subscriptionResponse", "data": {}}, Verdict.IGNORED),
    ("hyperliquid", {"channel": "pong"}, Verdict.HEARTBEAT),
    ("hyperliquid", {"channel": "error", "data": "Invalid subscription"}, Verdict.ERROR),
    ("dydx-v4", {"type": "connected", "message_id": 0}, Verdict.IGNORED),
    ("dydx-v4", {"type": "unsubscribed", "channel": "v4_trades", "id": "A"}, Verdict.IGNORED),
    ("dydx-v4", {"type": "error", "channel": "v4_trades", "id": "A"}, Verdict.ERROR),
    ("huobi", {"ping": 1_788_220_800_123}, Verdict.HEARTBEAT),
    ("huobi", {"id": "1", "subbed": "market.a.bbo", "status": "ok"}, Verdict.IGNORED),
    ("huobi", {"status": "error", "err-msg": "invalid topic x"}, Verdict.ERROR),
    ("huobi", {"status": "error", "err-msg": "invalid symbol x"}, Verdict.REJECTED),
    # Where only notifications come, pings are all that shows life for hours.
    ("huobi-dm", {"op": "ping", "ts": "1788220801456"}, Verdict.IGNORED),
    ("huobi-dm", {"op": "sub", "topic": "public.A.contract_info", "err-code": 0}, Verdict.IGNORED),
    ("huobi-dm", {"op": "sub", "topic": "public.X.contract_info", "err-code": 2011}, Verdict.ERROR),
    ("huobi-dm", {"op": "close", "ts": 1_788_220_801_456}, Verdict.ERROR),
    ("phemex", {"error": None, "id": 0, "result": {"status": "success"}}, Verdict.IGNORED),
    ("phemex", {"error": {"code": 6001, "message": "invalid"}, "id": 0}, Verdict.ERROR),
    ("bitstamp", {"event": "bts:heartbeat", "channel": "", "data": {}}, Verdict.IGNORED),
    ("bitstamp", {"event": "bts:error", "data": {"code": 4009}}, Verdict.ERROR),
    ("bitstamp", {"event": "bts:request_reconnect", "channel": "", "data": ""}, Verdict.ERROR),
    ("crypto-com", {"id": 1, "method": "subscribe", "code": 0}, Verdict.IGNORED),
    ("crypto-com", {"id": 7, "method": "public/heartbeat", "code": 0}, Verdict.HEARTBEAT),
    ("crypto-com", {"id": 1, "method": "subscribe", "code": 40003}, Verdict.REJECTED),
    ("crypto-com", {"id": 1, "method": "subscribe", "code": 40004}, Verdict.ERROR),
    ("kucoin", {"id": "hQ", "type": "welcome"}, Verdict.IGNORED),
    ("kucoin", {"id": "15", "type": "pong"}, Verdict.HEARTBEAT),
    ("kucoin-futures", {"id": "1", "type": "error", "code": 404}, Verdict.ERROR),
    ("gate-io", {"channel": "spot.obu", "result": {"status": "success"}}, Verdict.IGNORED),
    ("gate-io", {"channel": "spot.trades", "error": {"code": 2}}, Verdict.ERROR),
    ("gate-io-futures", {"channel": "futures.trades", "error": None}, Verdict.IGNORED),
    ("bitget", {"event": "subscribe", "arg": {"topic": "books"}}, Verdict.IGNORED),
    ("bitget-futures", {"event": "error", "code": "30001"}, Verdict.ERROR),
    ("upbit", {"status": "UP"}, Verdict.IGNORED),
    ("upbit", {"type": "error", "error": {"name": "NO_CODES"}}, Verdict.ERROR),
    ("gemini", {"id": 1, "status": 200}, Verdict.IGNORED),
    ("gemini", {"id": 1, "status": 400}, Verdict.ERROR),
    ("gemini", {"id": 1, "result": "error", "reason": "InvalidJson"}, Verdict.ERROR),
    ("gemini", {"id": 1, "error": {"code": -1121}}, Verdict.ERROR),
    ("bybit", {"success": True, "ret_msg": "", "op": "subscribe"}, Verdict.IGNORED),
    ("bybit", {"success": True, "ret_msg": "pong", "op": "ping"}, Verdict.HEARTBEAT),
    ("bybit-options", {"args": ["1"], "op": "pong"}, Verdict.HEARTBEAT),
    ("bybit", {"success": False, "ret_msg": "error:handler not found"}, Verdict.ERROR),
]


def feed(exchange: str) -> Feed:
    return feed_of(REGISTRY[exchange])


def plan(
    exchange: str, *filters: Filter, environment: dict[str, str] | None = None
) -> list[FeedConnection]:
    access = Access(environment or {}, now_us=1_700_000_000_000_000)
    return feed(exchange).connections(filters, access)


def frames(connection: FeedConnection) -> list[Any]:
    return [json.loads(frame) for frame in connection.frames]


@pytest.mark.parametrize(("exchange", "message", "verdict"), VERDICTS)
def test_message_without_data_has_a_verdict(exchange: str, message: Any, verdict: Verdict) -> None:
    assert feed(exchange).judge(json.dumps(message).encode()) is verdict


def test_bitmex_asks_for_ten_symbols_of_a_channel_per_frame() -> None:
    symbols = tuple(f"S{number:02}" for number in range(12))
    [connection] = plan("bitmex", Filter("trade", symbols), Filter("instrument"))
    assert [frame["args"] for frame in frames(connection)] == [
        ["instrument"],
        [f"trade:{symbol}" for symbol in symbols[:10]],
        [f"trade:{symbol}" for symbol in symbols[10:]],
    ]


def test_deribit_answers_only_test_requests() -> None:
    deribit = feed("deribit")
    assert deribit.answer(b'{"method":"heartbeat","params":{"type":"heartbeat"}}') is None
    reply = deribit.answer(b'{"method":"heartbeat","params":{"type":"test_request"}}')
    assert reply is not None
    assert json.loads(reply)["method"] == "public/test"


def test_deribit_logs_in_after_switching_heartbeats_on() -> None:
    environment = {"DERIBIT_API_CLIENT_ID": "me", "DERIBIT_API_CLIENT_SECRET": "s3cret"}
    [connection] = plan("deribit", Filter("book", ("BTC-PERPETUAL",)), environment=environment)
    assert connection.url == "wss://www.deribit.com/ws/api/v2"
    heartbeat, login = map(json.loads, connection.opening)
    assert (heartbeat["method"], login["method"]) == ("public/set_heartbeat", "public/auth")
    assert login["params"]["client_secret"] == "s3cret"
    [subscribe] = frames(connection)
    assert subscribe["method"] == "private/subscribe"
    assert subscribe["params"]["channels"] == ["book.BTC-PERPETUAL.raw"]


def test_coinbase_signs_its_subscription() -> None:
    environment = {
        "COINBASE_API_KEY": "key",
        "COINBASE_API_SECRET": "c2VjcmV0",
        "COINBASE_API_PASSPHRASE": "phrase",
    }
    [connection] = plan("coinbase", Filter("snapshot", ("BTC-USD",)), environment=environment)
    [subscribe] = frames(connection)
    assert subscribe["channels"] == [{"name": "level2", "product_ids": ["BTC-USD"]}]
    assert subscribe["timestamp"] == 1_700_000_000
    assert subscribe["signature"] == "lhmJXK08fk9SI1ZwFXKFRrPtzfbNOwC+D1xMJJ/1KZg="


def test_coinbase_secret_that_is_no_base64_is_named() -> None:
    names = ("KEY", "SECRET", "PASSPHRASE")
    environment = {f"COINBASE_API_{name}": "not base64!" for name in names}
    with pytest.raises(RequestError, match="COINBASE_API_SECRET must be base64"):
        plan("coinbase", Filter("match", ("BTC-USD",)), environment=environment)


def test_coinbase_international_signs_a_frame_per_channel() -> None:
    names = ("KEY", "SECRET", "PASSPHRASE")
    environment = {f"COINBASE_INTERNATIONAL_API_{name}": "c2VjcmV0" for name in names}
    filters = [Filter("MATCH", ("BTC-PERP",)), Filter("LEVEL2", ("BTC-PERP",))]
    [connection] = plan("coinbase-international", *filters, environment=environment)
    level2, match = frames(connection)
    assert (level2["channels"], match["channels"]) == (["LEVEL2"], ["MATCH"])
    assert level2["time"] == 1_700_000_000
    assert level2["signature"] == match["signature"]
    text = b"1700000000c2VjcmV0CBINTLMDc2VjcmV0"
    digest = hmac.digest(b"secret", text, hashlib.sha256)
    assert base64.b64decode(level2["signature"]) == digest


def test_missing_credentials_are_named() -> None:
    environment = {"COINBASE_INTERNATIONAL_API_KEY": "k"}
    with pytest.raises(RequestError, match=r"set COINBASE_\w+_SECRET, COINBASE_\w+_PASSPHRASE\."):
        plan("coinbase-international", Filter("MATCH", ("A",)), environment=environment)


def test_coinbase_takes_trades_from_all_orders_when_those_are_wanted_too() -> None:
    filters = [Filter("match", ("BTC-USD",)), Filter("done", ("BTC-USD",))]
    [subscribe] = frames(plan("coinbase", *filters)[0])
    assert subscribe["channels"] == [{"name": "full", "product_ids": ["BTC-USD"]}]


def test_okx_login_is_signed_with_the_time() -> None:
    environment = {"OKX_API_KEY": "k", "OKX_API_SECRET_KEY": "s", "OKX_API_PASSPHRASE": "p"}
    public, business = plan(
        "okex", Filter("books", ("A",)), Filter("trades-all", ("A",)), environment=environment
    )
    assert public.opening == business.opening
    [login] = json.loads(public.opening[0])["args"]
    assert (login["apiKey"], login["timestamp"]) == ("k", "1700000000")
    assert login["sign"] == "OoCQZaGpFYQ+eftotqwLCHuzqQUX5Mli3ddL9E2IKGk="


@pytest.mark.parametrize(
    ("environment", "channel"),
    [
        ({}, "books"),
        ({"OKX_API_VIP_5": "1"}, "books"),
        ({"OKX_API_KEY": "k"}, "books50-l2-tbt"),
        ({"OKX_API_KEY": "k", "OKX_API_VIP_5": "1"}, "books-l2-tbt"),
        ({"OKX_API_COLO": "1"}, "books-l2-tbt"),
    ],
)
def test_okx_credentials_open_other_books(environment: dict[str, str], channel: str) -> None:
    [entry] = live_filters(REGISTRY["okex-swap"], "book_change", ["BTC-USDT-SWAP"], environment)
    assert entry == Filter(channel, ("BTC-USDT-SWAP",))


def test_futures_have_two_addresses_also_under_an_override() -> None:
    filters = [Filter("depth", ("btcusdt",)), Filter("markPrice", ("btcusdt",))]
    environment = {"WSS_URL_BINANCE_FUTURES": "wss://other.example.com/public/stream"}
    connections = plan("binance-futures", *filters, environment=environment)
    assert [connection.url for connection in connections] == [
        "wss://other.example.com/public/stream",
        "wss://other.example.com/market/stream",
    ]


def test_book_of_binance_begins_with_rest_and_open_interest_is_polled() -> None:
    symbols = ("btcusdt",)
    public, market = plan(
        "binance-futures", Filter("depth", symbols), Filter("openInterest", symbols)
    )
    assert public.snapshots is not None
    calls = public.snapshots.calls
    assert calls.url("btcusdt").endswith("/fapi/v1/depth?symbol=BTCUSDT&limit=1000")
    message = json.loads(calls.wrap("btcusdt", b'{"lastUpdateId":7}'))
    assert message == {
        "stream": "btcusdt@depthSnapshot",
        "generated": True,
        "data": {"lastUpdateId": 7},
    }
    assert market.snapshots is None
    [poll] = market.polls
    assert (poll.symbols, poll.interval_seconds) == (symbols, 5.0)


def test_limits_of_binance_come_from_the_venue_or_the_environment() -> None:
    filters = [Filter("depth", ("btcusdt",))]
    environment = {"BINANCE_REQUEST_WEIGHT_LIMIT": "500", "BINANCE_CONCURRENCY_LIMIT": "2"}
    for given, limit, reserve in (({}, None, 80), (environment, 500, 40)):
        [connection] = plan("binance", *filters, environment=given)
        assert connection.snapshots is not None
        calls = connection.snapshots.calls
        assert calls.budget is not None
        assert (calls.budget.limit, calls.reserve) == (limit, reserve)
        body = {"rateLimits": [{"rateLimitType": "REQUEST_WEIGHT", "limit": 6000}]}
        assert calls.budget.read_limit(json.dumps(body).encode()) == 6000


def test_phemex_needs_a_frame_per_symbol_and_a_pause() -> None:
    filters = [Filter("book", ("BTCUSD",)), Filter("market24h", ("BTCUSD",))]
    [connection] = plan("phemex", *filters)
    assert [(frame["method"], frame["params"]) for frame in frames(connection)] == [
        ("orderbook.subscribe", ["BTCUSD"]),
        ("market24h.subscribe", []),
    ]
    assert connection.pause_seconds > 0


def test_closed_exchange_has_no_feed() -> None:
    with pytest.raises(UnsupportedError, match="binance-jersey cannot be streamed live"):
        feed("binance-jersey")
