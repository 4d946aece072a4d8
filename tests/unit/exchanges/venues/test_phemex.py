"""Phemex: symbols, channels, subscriptions and what the golden files do not show."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.venues.phemex.feed import connections, read_frame, read_subscribe
from tardis_machine.exchanges.venues.phemex.symbols import (
    PILOT_PERPETUALS,
    S_PERPETUALS,
    is_decimal,
    native_id,
    split_filters,
)
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import line, map_messages

FILTERS = split_filters("trades", "trades_p")
PACK = "perp_market24h_pack_p"


def pack(*rows: list[Any], **fields: Any) -> Any:
    return {"data": rows, "method": f"{PACK}.update", "timestamp": 1685577600000000000} | fields


def selected(filters: list[Filter], *messages: Any) -> list[bool]:
    """Say of each message whether filters select it."""
    selector = LineFilter(REGISTRY["phemex"], filters)
    return [bool(selector.select([line(message)])) for message in messages]


@pytest.mark.parametrize(
    ("typed", "native"),
    [
        ("BTCUSD", "BTCUSD"),
        ("sBTCUSDT", "sBTCUSDT"),
        ("SBTCUSDT", "sBTCUSDT"),
        ("SOLUSDT", "SOLUSDT"),
        ("SSOLUSDT", "sSOLUSDT"),
        ("SUSDT", "SUSDT"),
        ("SUSDTUSDC", "sUSDTUSDC"),
        ("SONYUSDC", "sONYUSDC"),
        ("SIRENPUSD", "SIRENPUSD"),
        ("SBTCUSD230630", "SBTCUSD230630"),
        ("U1000BONKUSDT", "u1000BONKUSDT"),
        ("u1000BONKUSDT", "u1000BONKUSDT"),
        ("UNIUSDT", "UNIUSDT"),
        ("CETHUSD", "cETHUSD"),
        ("cETHUSD", "cETHUSD"),
        ("CADAUSD", "CADAUSD"),
        ("btcusd", "btcusd"),
        ("", ""),
    ],
)
def test_id_is_found_for_a_symbol_as_typed(typed: str, native: str) -> None:
    assert native_id(typed) == native


@pytest.mark.parametrize("prefix", S_PERPETUALS)
def test_perpetual_with_s_is_no_spot_market(prefix: str) -> None:
    symbol = prefix.removesuffix("T") + "T"
    assert native_id(symbol) == symbol
    assert is_decimal(symbol)


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        ("BTCUSDT", True),
        ("BTCUSDC", True),
        ("u1000BONKUSDT", True),
        ("SUSDT", True),
        ("BTCUSD", False),
        ("cETHUSD", False),
        ("sBTCUSDT", False),
        ("SBTCUSDT", False),
        ("BTCUSDT230630", False),
        ("btcusdt", False),
        *((pilot, True) for pilot in sorted(PILOT_PERPETUALS)),
    ],
)
def test_id_tells_the_family_of_its_channels(native: str, expected: bool) -> None:
    assert is_decimal(native) is expected


def test_filters_split_symbols_by_family_in_their_order() -> None:
    assert FILTERS(("ETHUSD", "BTCUSDT", "SBTCUSDT", "ADAUSDT")) == [
        Filter("trades_p", ("BTCUSDT", "ADAUSDT")),
        Filter("trades", ("ETHUSD", "sBTCUSDT")),
    ]
    assert FILTERS(("BTCUSDT",)) == [Filter("trades_p", ("BTCUSDT",))]
    assert FILTERS(("BTCUSD",)) == [Filter("trades", ("BTCUSD",))]


@pytest.mark.parametrize("symbols", [None, ()])
def test_filters_without_symbols_ask_for_both_families(symbols: Any) -> None:
    assert FILTERS(symbols) == [Filter("trades"), Filter("trades_p")]


def test_lines_are_selected_by_the_symbols_inside() -> None:
    ticker = {"market24h": {"symbol": "BTCUSD"}, "timestamp": 1}
    assert selected([Filter("market24h", ("ETHUSD", "BTCUSD"))], ticker) == [True]
    assert selected([Filter("market24h", ("ETHUSD",))], ticker) == [False]
    spot = {"spot_market24h": {"symbol": "sBTCUSDT"}, "timestamp": 1}
    assert selected([Filter("spot_market24h", ("sBTCUSDT",))], spot, ticker) == [True, False]
    rows = pack(["BTCUSDT", "1"], ["ETHUSDT", "2"])
    assert selected([Filter(PACK, ("ETHUSDT",))], rows) == [True]
    assert selected([Filter(PACK, ("ADAUSDT",))], rows, pack()) == [False, True]
    book = {"book": {"asks": [], "bids": []}, "symbol": "sBTCUSDT", "timestamp": 1}
    assert selected([Filter("book", ("sBTCUSDT",))], book) == [True]
    assert selected([Filter("book", ("SBTCUSDT",))], book) == [False]


def test_time_is_cut_to_microseconds_exactly() -> None:
    # As a double it would be the next microsecond.
    trades = [[1685577600000000999, "Buy", 1, 1]]
    message = {"symbol": "BTCUSD", "trades": trades, "type": "incremental"}
    (record,) = map_messages("phemex", "trade", message)
    assert record.timestamp == "2023-06-01T00:00:00.000000Z"


def test_excluded_market_has_no_ticker_either() -> None:
    ticker = {"market24h": {"symbol": "sOLUSDT", "close": 1}, "timestamp": 1}
    row = ["sOLUSDT", "1", "1", "1", "1"]
    assert map_messages("phemex", "derivative_ticker", ticker, pack(row)) == []


@pytest.mark.parametrize(
    "message",
    [
        pack(["BTCUSDT", "1", "1", "1", "no number"]),
        pack(["BTCUSDT"], timestamp=None),
        pack(data=7),
        {"market24h": {"symbol": "BTCUSD"}},
        {"symbol": "BTCUSD", "book": {"asks": []}, "timestamp": 1},
        {"symbol": "BTCUSD", "book": {"asks": [[1]], "bids": []}, "timestamp": 1},
        {"symbol": "BTCUSD", "trades": [["soon", "Buy", 1, 1]], "type": "incremental"},
    ],
)
def test_message_of_another_shape_is_an_error(message: Any) -> None:
    with pytest.raises(MappingError, match="phemex"):
        map_messages("phemex", ["trade", "book_change", "derivative_ticker"], message)


def test_feed_sends_a_frame_per_symbol_and_one_for_all_tickers() -> None:
    filters = [
        Filter("trades_p", ("ETHUSDT", "BTCUSDT")),
        Filter("trades", ("sBTCUSDT",)),
        Filter("market24h", ("sBTCUSDT",)),
        Filter(PACK, ("ETHUSDT", "BTCUSDT")),
    ]
    [connection] = connections(filters, Access())
    assert (connection.url, connection.pause_seconds) == ("wss://ws.phemex.com/", 0.1)
    assert [json.loads(frame) for frame in connection.frames] == [
        {"id": 0, "method": "market24h.subscribe", "params": []},
        {"id": 1, "method": "perp_market24h_pack_p.subscribe", "params": []},
        {"id": 2, "method": "trade.subscribe", "params": ["sBTCUSDT"]},
        {"id": 3, "method": "trade_p.subscribe", "params": ["BTCUSDT"]},
        {"id": 4, "method": "trade_p.subscribe", "params": ["ETHUSDT"]},
    ]


def test_feed_needs_symbols_where_frames_name_them() -> None:
    with pytest.raises(RequestError, match="symbols to stream 'orderbook_p'"):
        connections([Filter("orderbook_p")], Access())


@pytest.mark.parametrize(
    ("method", "channel"),
    [
        ("orderbook.subscribe", "book"),
        ("orderbook_p.subscribe", "orderbook_p"),
        ("trade.subscribe", "trades"),
        ("trade_p.subscribe", "trades_p"),
    ],
)
def test_frame_names_channel_and_symbol_and_perhaps_a_depth(method: str, channel: str) -> None:
    message = {"id": 1, "method": method, "params": ["BTCUSD", True, 30]}
    assert read_frame(message) == [Filter(channel, ("BTCUSD",))]


def test_frame_of_a_ping_is_no_subscription() -> None:
    assert read_frame({"id": 0, "method": "server.ping", "params": []}) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"method": "trade.subscribe", "params": ["A", "B"]}, Filter("trades", ("A", "B"))),
        ({"method": "market24h.subscribe", "params": []}, Filter("market24h", ())),
        ({"method": "orderbook.subscribe"}, Filter("book")),
        ({"method": "trade_p.subscribe", "params": ["A"]}, Filter("", ("A",))),
        ({"method": "server.ping", "params": []}, Filter("", ())),
    ],
)
def test_replay_reads_three_methods_and_no_channel_of_others(
    message: Any, expected: Filter
) -> None:
    assert read_subscribe(message) == [expected]
