"""Gate.io: odd messages of every generation, subscriptions, and addresses of futures."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access, FeedConnection
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.venues.gate_io import futures, spot_v3
from tardis_machine.exchanges.venues.gate_io.feed import read_subscribe
from tardis_machine.exchanges.versions import feed_of, subscribe_readers
from tardis_machine.model.errors import BookGapError, MappingError, RequestError
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import parse_us
from tests.unit.exchanges.mapping import NOW_US, connect, connect_live, feed, feed_live

SWITCH_US = parse_us("2023-04-29T00:00:00.000Z")


def plan(exchange: str, *filters: Filter) -> list[FeedConnection]:
    access = Access(now_us=1_700_000_000_123_456)
    return feed_of(REGISTRY[exchange]).connections(filters, access)


def push(channel: str, event: str, result: Any) -> Any:
    return {"channel": channel, "event": event, "result": result}


def book(**fields: Any) -> Any:
    return push("spot.obu", "update", {"t": 1, "s": "ob.A_B.400", **fields})


def test_live_book_that_misses_an_update_is_a_gap() -> None:
    normalizer = connect_live("gate-io", "book_change")
    records = feed_live(normalizer, book(U=4, u=5), book(full=True, u=7), book(U=8, u=9))
    assert [record.is_snapshot for record in records] == [True, False]
    with pytest.raises(BookGapError, match="follows 10, not 9"):
        feed_live(normalizer, book(U=11, u=11))


@pytest.mark.parametrize(
    ("exchange", "data_type", "message"),
    [
        ("gate-io", "trade", push("spot.trades", "update", {"id": 1})),
        ("gate-io", "book_change", push("spot.obu", "update", {"s": "ob.A_B.400"})),
        ("gate-io", "book_ticker", push("spot.book_ticker", "update", {"t": 1})),
        ("gate-io-futures", "trade", push("futures.trades", "update", [{"contract": "A"}])),
        ("gate-io-futures", "book_change", push("futures.order_book", "all", [])),
        (
            "gate-io-futures",
            "book_change",
            push("futures.order_book", "update", [{"p": "1", "s": "1", "c": "A_B"}]),
        ),
    ],
)
def test_message_of_another_shape_is_an_error(exchange: str, data_type: str, message: Any) -> None:
    with pytest.raises(MappingError, match=exchange):
        feed_live(connect_live(exchange, data_type), message)


@pytest.mark.parametrize("params", [[True, {}], [{"bids": []}, True, "A_B"], ["A_B"]])
def test_old_book_of_another_shape_is_an_error(params: Any) -> None:
    with pytest.raises(MappingError, match="gate-io"):
        feed(connect("gate-io", "book_change"), {"method": "depth.update", "params": params})


def test_recording_is_filtered_by_the_format_of_its_time() -> None:
    lines = [
        b'2023-04-28T23:59:59.9999990Z {"method":"trades.update","params":["A_B",[]],"id":null}',
        b'2023-04-28T23:59:59.9999991Z {"method":"trades.update","params":["C_D",[]],"id":null}',
        b'2023-04-28T23:59:59.9999992Z {"method":"depth.update","params":[true,{},"A_B"]}',
        b'2023-04-29T00:00:00.0000000Z {"channel":"spot.trades","event":"update",'
        b'"result":{"currency_pair":"A_B"}}',
        b'2025-08-02T00:00:00.0000001Z {"channel":"spot.obu","result":{"s":"ob.A_B.400"},'
        b'"event":"update"}',
        b'2025-08-02T00:00:00.0000002Z {"channel":"spot.obu","result":{"s":"ob.C_D.400"},'
        b'"event":"update"}',
    ]
    wanted = [Filter("trades", ("A_B",)), Filter("obu", ("A_B",)), Filter("depth", ("A_B",))]
    selected = LineFilter(REGISTRY["gate-io"], wanted).select(lines)
    assert selected == [lines[index] for index in (0, 2, 3, 4)]


def test_old_subscription_has_symbols_and_lists_that_begin_with_one() -> None:
    message = {"method": "depth.subscribe", "params": ["A_B", ["C_D", 30, "0"]]}
    assert spot_v3.read_subscribe(message) == [Filter("depth", ("A_B", "C_D"))]
    assert spot_v3.read_subscribe({"method": "depth.unsubscribe", "params": []}) is None


def test_new_subscription_is_understood_where_the_new_format_is_replayed() -> None:
    message = {"channel": "spot.obu", "event": "subscribe", "payload": ["ob.BTC_USDT.400"]}
    assert read_subscribe(message) == [Filter("obu", ("BTC_USDT",))]
    for at_us, count in ((SWITCH_US - 1, 1), (SWITCH_US, 2)):
        assert len(subscribe_readers(REGISTRY["gate-io"], at_us, NOW_US)) == count


def test_depth_in_a_subscription_of_futures_is_no_symbol() -> None:
    payload = ["BTC_USDT", "20", "0"]
    message = {"channel": "futures.order_book", "event": "subscribe", "payload": payload}
    assert read_subscribe(message) == [Filter("order_book", ("BTC_USDT",))]
    assert futures.read_subscribe(message) == [Filter("order_book", tuple(payload))]


def test_futures_have_an_address_per_margin_and_a_header() -> None:
    symbols = ("BTC_USD", "BTC_USDT", "ETH_USDT")
    filters = [Filter("order_book", symbols), Filter("trades", symbols)]
    inverse, linear = plan("gate-io-futures", *filters)
    assert (inverse.url, linear.url) == (
        "wss://fx-ws.gateio.ws/v4/ws/btc",
        "wss://fx-ws.gateio.ws/v4/ws/usdt",
    )
    assert linear.headers == {"X-Gate-Size-Decimal": "1"}
    payloads = [json.loads(frame)["payload"] for frame in linear.frames]
    assert payloads == [
        ["BTC_USDT", "20", "0"],
        ["ETH_USDT", "20", "0"],
        ["BTC_USDT", "ETH_USDT"],
    ]


def test_times_of_frames_are_in_the_unit_of_the_market() -> None:
    [spot] = plan("gate-io", Filter("trades", ("BTC_USDT",)))
    [linear] = plan("gate-io-futures", Filter("trades", ("BTC_USDT",)))
    times = [json.loads(connection.frames[0])["time"] for connection in (spot, linear)]
    assert times == [1_700_000_000_123, 1_700_000_000]


def test_feed_has_no_socket_for_what_is_only_recorded() -> None:
    assert plan("gate-io", Filter("depth", ("BTC_USDT",))) == []


@pytest.mark.parametrize("exchange", ["gate-io", "gate-io-futures"])
def test_feed_refuses_all_symbols(exchange: str) -> None:
    with pytest.raises(RequestError, match="symbols to stream 'trades'"):
        plan(exchange, Filter("trades"))
