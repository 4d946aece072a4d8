"""Bybit: odd messages of each generation, topics, and which address brings what."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access, FeedConnection
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.venues.bybit import old_spot
from tardis_machine.exchanges.venues.bybit.topics import locate, read_spot_topics, read_topics
from tardis_machine.exchanges.versions import feed_of, subscribe_readers
from tardis_machine.model.errors import BookGapError, MappingError, RequestError
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import parse_us
from tests.unit.exchanges.mapping import (
    NOW_US,
    connect,
    connect_live,
    feed,
    feed_live,
    map_messages,
)

LINE = b'2023-06-01T00:00:00.0000000Z {"topic":"publicTrade.BTC","data":%b}'
SWITCH_US = parse_us("2023-04-05T00:00:00.000Z")


def plan(exchange: str, *filters: Filter) -> list[FeedConnection]:
    return feed_of(REGISTRY[exchange]).connections(filters, Access())


def topics(connection: FeedConnection) -> list[list[str]]:
    return [json.loads(frame)["args"] for frame in connection.frames]


def book(kind: str, number: int) -> Any:
    data = {"s": "BTCUSDT", "b": [], "a": [["2", "1"]], "u": number}
    return {"topic": "orderbook.50.BTCUSDT", "type": kind, "ts": 1, "data": data}


@pytest.mark.parametrize(
    ("topic", "located"),
    [
        ("publicTrade.BTCUSDT", Filter("publicTrade", ("BTCUSDT",))),
        ("orderbook.50.BTC-29DEC23", Filter("orderbook.50", ("BTC-29DEC23",))),
        ("instrument_info.100ms.BTCUSD", Filter("instrument_info", ("BTCUSD",))),
        ("orderBook_200.100ms.BTCUSD", Filter("orderBook_200", ("BTCUSD",))),
        ("insurance", Filter("insurance")),
    ],
)
def test_topic_names_channel_and_symbol(topic: str, located: Filter) -> None:
    assert locate(topic) == located


def test_subscriptions_of_old_clients_differ_between_markets() -> None:
    message = {"op": "subscribe", "args": ["orderbook.50.BTCUSDT"]}
    assert read_topics(message) == [Filter("orderbook.50", ("BTCUSDT",))]
    assert read_spot_topics(message) == [Filter("orderbook", ("BTCUSDT",))]
    old = {"event": "sub", "topic": "trade", "symbol": "BTCUSDT"}
    assert old_spot.read_subscribe(old) == [Filter("trade", ("BTCUSDT",))]
    assert [read(old) for read in (read_topics, read_spot_topics)] == [None, None]
    assert old_spot.read_subscribe(message) is None


def test_replayed_spot_subscription_names_the_whole_channel_first() -> None:
    message = {"op": "subscribe", "args": ["orderbook.50.BTCUSDT"]}
    readers = subscribe_readers(REGISTRY["bybit-spot"], SWITCH_US, NOW_US)
    assert readers[0](message) == [Filter("orderbook.50", ("BTCUSDT",))]
    [reader] = subscribe_readers(REGISTRY["bybit-spot"], SWITCH_US - 1, NOW_US)
    assert reader(message) is None


def test_live_book_that_misses_an_update_is_a_gap() -> None:
    normalizer = connect_live("bybit", "book_change")
    records = feed_live(normalizer, book("delta", 6), book("snapshot", 7), book("delta", 8))
    assert [record.is_snapshot for record in records] == [True, False]
    with pytest.raises(BookGapError, match="follows 9, not 8"):
        feed_live(normalizer, book("delta", 10))
    records = feed_live(normalizer, book("delta", 11), book("snapshot", 1), book("delta", 2))
    assert [record.is_snapshot for record in records] == [True, False]


def test_contracts_of_one_margin_need_one_address() -> None:
    linear = ("BTCUSDT", "BTCPERP", "BTC-29DEC23")
    [connection] = plan("bybit", Filter("tickers", linear))
    assert connection.url == "wss://stream.bybit.com/v5/public/linear"
    [inverse, both] = plan("bybit", Filter("tickers", (*linear, "BTCUSD", "ETHUSDH24")))
    assert inverse.url == "wss://stream.bybit.com/v5/public/inverse"
    assert topics(inverse) == [["tickers.BTCUSD", "tickers.ETHUSDH24"]]
    assert both == connection


def test_trades_of_options_are_asked_for_by_currency() -> None:
    symbols = ("BTC-30JUN23-28000-C", "BTC-9JUN23-26500-P", "ETH-9JUN23-1800-P")
    wanted = Filter("publicTrade", symbols)
    [connection] = plan("bybit-options", wanted)
    assert topics(connection) == [["publicTrade.BTC", "publicTrade.ETH"]]
    assert connection.filters == (wanted,)
    unsubscribe = feed_of(REGISTRY["bybit-options"]).unsubscribe
    assert unsubscribe is not None
    assert unsubscribe([wanted], Access()) == (
        '{"op":"unsubscribe","args":["publicTrade.BTC","publicTrade.ETH"]}',
    )


def test_recorded_trades_of_options_are_selected_by_contract() -> None:
    line = LINE % b'[{"s":"BTC-9JUN23-26500-P"},{"s":"BTC-9JUN23-27000-P"}]'
    for symbol, selected in (("BTC-9JUN23-27000-P", [line]), ("BTC-9JUN23-28000-P", [])):
        filters = [Filter("publicTrade", (symbol,))]
        assert LineFilter(REGISTRY["bybit-options"], filters).select([line]) == selected


def test_feed_refuses_all_symbols() -> None:
    with pytest.raises(RequestError, match="symbols to stream 'tickers'"):
        plan("bybit", Filter("tickers"))


@pytest.mark.parametrize(
    ("data_type", "message"),
    [
        ("book_change", {"topic": "orderBookL2_25.X", "type": "delta", "data": {"update": []}}),
        (
            "book_change",
            {"topic": "orderBookL2_25.X", "type": "snapshot", "data": [{"side": "Buy"}]},
        ),
        ("derivative_ticker", {"topic": "instrument_info.100ms.X", "data": {"update": []}}),
        ("derivative_ticker", {"topic": "instrument_info.100ms.X", "data": {"symbol": "X"}}),
        ("trade", {"topic": "trade.X", "data": [{"symbol": "X", "side": "Buy", "price": 1}]}),
        ("liquidation", {"topic": "liquidation.X", "data": None}),
    ],
)
def test_old_message_of_another_shape_is_an_error(data_type: str, message: Any) -> None:
    with pytest.raises(MappingError, match="bybit"):
        map_messages("bybit", data_type, message)


@pytest.mark.parametrize("symbol", ["BTC", "BTC-30JUN23", "BTC-30XXX23-28000-C", "BTC-1JAN24-x-C"])
def test_option_whose_symbol_tells_no_contract_is_an_error(symbol: str) -> None:
    message = {"topic": f"tickers.{symbol}", "ts": 1, "data": {"symbol": symbol}}
    with pytest.raises(MappingError, match="bybit-options"):
        feed(connect("bybit-options", "option_summary"), message)
