"""Rules of the okex family that its golden files do not show."""

import json
from typing import Any

import msgspec
import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.venues.okex import v3, v5
from tardis_machine.exchanges.venues.okex.feed import connections, make_feed, read_subscribe
from tardis_machine.exchanges.venues.okex.fields import (
    family_of,
    index_of,
    parse_option,
    usd_index_of,
)
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import parse_us
from tests.unit.exchanges.mapping import connect, feed

V3_US = parse_us("2020-06-01T00:00:00.000Z")
TRADES_US = parse_us("2022-02-01T00:00:00.000Z")
TRADES_ALL_US = parse_us("2024-02-01T00:00:00.000Z")
PUBLIC = "wss://ws.okx.com:8443/ws/v5/public"
BUSINESS = "wss://ws.okx.com:8443/ws/v5/business"


def trade(channel: str = "trades", **fields: Any) -> dict[str, Any]:
    item = {"instId": "A-B", "tradeId": "7", "px": "1.5", "sz": "2", "side": "buy", "ts": "0"}
    return {"arg": {"channel": channel, "instId": "A-B"}, "data": [item | fields]}


def old_trade(**fields: Any) -> dict[str, Any]:
    row = {"instrument_id": "A-B", "price": 1, "side": "buy", "timestamp": "2020-06-01T00:00:00Z"}
    return {"table": "spot/trade", "data": [row | fields]}


@pytest.mark.parametrize(("sent", "side"), [("buy", "buy"), ("sell", "sell"), ("", "sell")])
def test_trade_that_is_no_buy_is_a_sell(sent: str, side: str) -> None:
    (record,) = feed(connect("okex", "trade", at_us=TRADES_US), trade(side=sent))
    assert record.side == side


@pytest.mark.parametrize(
    ("exchange", "at_us", "read"),
    [
        ("okex", TRADES_US, ["trades"]),
        ("okex", TRADES_ALL_US, ["trades", "trades-all"]),
        ("okcoin", TRADES_ALL_US, ["trades"]),
    ],
)
def test_single_fills_are_read_where_they_are_recorded(
    exchange: str, at_us: int, read: list[str]
) -> None:
    channels = ["trades", "trades-all"]
    messages = [trade(channel, tradeId=channel) for channel in channels]
    records = feed(connect(exchange, "trade", at_us=at_us), *messages)
    assert [record.id for record in records] == read


def test_answer_that_looks_like_a_push_is_ignored() -> None:
    push = json.dumps(trade(), separators=(",", ":")).encode()
    answer = b'{"arg":{"channel":"trades","instId":"A-B"},"event":"subscribe","connId":"1"}'
    normalizer = connect("okex", "trade", at_us=TRADES_US)
    assert len(feed(normalizer, answer, push, answer)) == 1


@pytest.mark.parametrize(
    "fields", [{}, {"size": ""}, {"size": 1, "side": "none"}, {"size": 1, "price": "x"}]
)
def test_old_trade_of_another_shape_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(MappingError, match="okex"):
        feed(connect("okex", "trade", at_us=V3_US), old_trade(**fields))


def test_old_ticker_without_time_is_an_error() -> None:
    message = {"table": "spot/ticker", "data": [{"instrument_id": "A-B", "best_bid": "1"}]}
    with pytest.raises(MappingError, match="no timestamp"):
        feed(connect("okex", "book_ticker", at_us=V3_US), message)


@pytest.mark.parametrize(("sent", "side"), [("3", "sell"), ("4", "buy"), (3, "buy"), (None, "buy")])
def test_old_liquidation_of_text_3_closed_a_long_position(sent: Any, side: str) -> None:
    row = {"instrument_id": "A", "price": 1, "size": 2, "created_at": "2020-06-01T00:00:00Z"}
    message = {"table": "swap/liquidation", "data": [row | {"type": sent}]}
    (record,) = feed(connect("okex-swap", "liquidation", at_us=V3_US), message)
    assert record.side == side


def test_backlog_of_liquidations_says_nothing_about_generated_ones() -> None:
    item = {"bkPx": "1", "sz": "2", "side": "buy", "ts": "0"}
    generated = {"arg": {"channel": "liquidations", "instId": "A"}, "data": [item]}
    orders = {
        "arg": {"channel": "liquidation-orders", "instType": "SWAP"},
        "data": [{"instId": "B", "details": [item]}],
    }
    normalizer = connect("okex-swap", "liquidation", at_us=TRADES_US)
    records = feed(normalizer, generated, orders, generated, orders)
    assert [record.symbol for record in records] == ["A", "A", "B"]


@pytest.mark.parametrize(
    ("symbol", "family", "index", "usd_index"),
    [
        ("BTC-USDT-SWAP", "BTC-USDT", "BTC-USDT", "BTC-USDT"),
        ("BTC-USDC-SWAP", "BTC-USDC", "BTC-USDC", "BTC-USD"),
        ("BTC-USD_UM_XPERP-310404", "BTC-USD_UM_XPERP", "BTC-USD", "BTC-USD"),
        ("SOL-USD_UM-260618-67-C", "SOL-USD_UM", "SOL-USD", "SOL-USD"),
        ("BTC-USD", "BTC-USD", "BTC-USD", "BTC-USD"),
    ],
)
def test_symbol_tells_family_and_index(
    symbol: str, family: str, index: str, usd_index: str
) -> None:
    assert (family_of(symbol), index_of(symbol), usd_index_of(symbol)) == (family, index, usd_index)


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("BTC-USD-240628-60000-C", ("call", 60000.0, "2024-06-28T08:00:00.000Z")),
        ("SOL-USD_UM-240229-67.5-P", ("put", 67.5, "2024-02-29T08:00:00.000Z")),
    ],
)
def test_option_is_named_by_its_terms(symbol: str, expected: tuple[str, float, str]) -> None:
    assert parse_option(symbol) == expected


@pytest.mark.parametrize("symbol", ["BTC-USD-240628", "BTC-USD-240628-60000-X", "BTC-USD-x-1-C"])
def test_option_with_another_name_is_an_error(symbol: str) -> None:
    item = {"instId": symbol, "uly": "BTC-USD", "ts": "0"}
    message = {"arg": {"channel": "opt-summary", "instFamily": "BTC-USD"}, "data": [item]}
    with pytest.raises(MappingError, match="okex-options"):
        feed(connect("okex-options", "option_summary", at_us=TRADES_US), message)


@pytest.mark.parametrize(
    ("arg", "symbols"),
    [
        ({"instId": "A-B"}, ("A-B",)),
        ({"instFamily": "BTC-USD"}, ("BTC-USD",)),
        ({"uly": "BTC-USD"}, ("BTC-USD",)),
        ({"sprdId": "A_B"}, ("A_B",)),
        ({"instType": "SWAP"}, ()),
    ],
)
def test_message_is_about_what_was_subscribed_to(
    arg: dict[str, str], symbols: tuple[str, ...]
) -> None:
    message = json.dumps({"arg": {"channel": "any"} | arg, "data": [{"instId": "C-D"}]}).encode()
    assert v5.read_symbols(message) == symbols


def test_old_message_is_about_its_rows() -> None:
    rows = [{"instrument_id": name} for name in ("A", "B", "A")]
    assert v3.read_symbols(json.dumps({"table": "any", "data": rows}).encode()) == ("A", "B")
    assert v3.read_symbols(b'{"table":"system/status","data":[{"title":"x"}]}') == ()


def frames(exchange: str, *filters: Filter) -> dict[str, list[Any]]:
    """Return the arguments that are subscribed, by address."""
    return {
        connection.url: [argument for frame in connection.frames for argument in args(frame)]
        for connection in connections(exchange, filters, Access())
    }


def args(frame: str) -> list[Any]:
    message = json.loads(frame)
    assert message["op"] == "subscribe"
    return message["args"]  # type: ignore[no-any-return]


def test_single_fills_have_an_address_of_their_own() -> None:
    wanted = Filter("trades-all", ("B", "A")), Filter("books", ("A",))
    assert frames("okex", *wanted) == {
        PUBLIC: [{"channel": "books", "instId": "A"}],
        BUSINESS: [
            {"channel": "trades-all", "instId": "A"},
            {"channel": "trades-all", "instId": "B"},
        ],
    }


def test_okcoin_has_one_address() -> None:
    wanted = Filter("trades", ("A",)), Filter("books", ("A",))
    assert list(frames("okcoin", *wanted)) == ["wss://real.okcoin.com:8443/ws/v5/public"]


def test_spreads_are_subscribed_by_their_own_name_and_read_back() -> None:
    [connection] = connections("okex-spreads", [Filter("sprd-books5", ("A_B",))], Access())
    assert connection.url == BUSINESS
    [frame] = map(json.loads, connection.frames)
    assert frame["args"] == [{"channel": "sprd-books5", "sprdId": "A_B"}]
    assert read_subscribe(frame) == [Filter("sprd-books5", ("A_B",))]


def test_liquidations_are_subscribed_once_per_type() -> None:
    wanted = Filter("liquidation-orders", ("A-B-SWAP", "C-D-SWAP", "A-B-240628"))
    assert frames("okex-swap", wanted, Filter("liquidations", ("A-B-SWAP",))) == {
        PUBLIC: [
            {"channel": "liquidation-orders", "instType": "FUTURES"},
            {"channel": "liquidation-orders", "instType": "SWAP"},
        ]
    }


def test_recorded_channel_alone_needs_no_connection() -> None:
    assert connections("okex-swap", [Filter("liquidations", ("A-B-SWAP",))], Access()) == []


def test_summaries_of_options_have_default_families() -> None:
    found = frames("okex-options", Filter("opt-summary"), Filter("index-tickers", ()))[PUBLIC]
    assert {"channel": "opt-summary", "instFamily": "SOL-USD_UM"} in found
    assert {"channel": "index-tickers", "instId": "SOL-USD"} in found


@pytest.mark.parametrize(
    ("exchange", "channel"),
    [("okex", "books"), ("okex-options", "tickers"), ("okex-swap", "index-tickers")],
)
def test_channel_without_symbols_is_refused(exchange: str, channel: str) -> None:
    with pytest.raises(RequestError, match=f"{exchange} .*'{channel}'.* name those you want"):
        connections(exchange, [Filter(channel)], Access())


def test_frames_stay_below_the_limit_of_the_venue() -> None:
    symbols = tuple(f"BTC-USD-240628-{strike:06d}-C" for strike in range(3000))
    (connection,) = connections("okex-options", [Filter("books", symbols)], Access())
    assert len(connection.frames) == 3
    assert max(map(len, connection.frames)) < 64 * 1024
    asked = [argument["instId"] for frame in connection.frames for argument in args(frame)]
    assert asked == list(symbols)


def test_subscription_names_instruments_families_or_types() -> None:
    arguments = [
        {"channel": "trades", "instId": "A-B"},
        {"channel": "opt-summary", "instFamily": "BTC-USD_UM"},
        {"channel": "opt-summary", "uly": "BTC-USD"},
        {"channel": "liquidation-orders", "instType": "SWAP"},
    ]
    assert make_feed("okex-swap").read_subscribe({"op": "subscribe", "args": arguments}) == [
        Filter("trades", ("A-B",)),
        Filter("opt-summary", ("BTC-USD_UM",)),
        Filter("opt-summary", ("BTC-USD",)),
        Filter("liquidation-orders"),
    ]


def test_old_subscription_is_split_at_its_first_colon() -> None:
    message = {"op": "subscribe", "args": ["spot/trade:A-B", "spot/depth:A:B", "system/status"]}
    assert v3.read_subscribe(message) == [
        Filter("spot/trade", ("A-B",)),
        Filter("spot/depth", ("A:B",)),
        Filter("system/status"),
    ]


@pytest.mark.parametrize("reader", [v3.read_subscribe, read_subscribe])
@pytest.mark.parametrize("message", [{"op": "unsubscribe", "args": []}, {"op": "ping"}, "ping", 1])
def test_other_messages_are_no_subscriptions(reader: Any, message: Any) -> None:
    assert reader(message) is None


@pytest.mark.parametrize(
    ("reader", "arguments"),
    [
        (v3.read_subscribe, [{"channel": "trades", "instId": "A-B"}]),
        (v3.read_subscribe, "spot/trade:A-B"),
        (v3.read_subscribe, None),
        (read_subscribe, ["spot/trade:A-B"]),
        (read_subscribe, [{"instId": "A-B"}]),
    ],
)
def test_arguments_of_another_form_cannot_be_read(reader: Any, arguments: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        reader({"op": "subscribe", "args": arguments})
