"""Recordings of a whole feed, filtered locally."""

from typing import Any

import pytest

from tardis_machine.exchanges.catalog import CATALOG
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.model.errors import MappingError, UnsupportedError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import line


def select(exchange: str, filters: list[Filter], *messages: Any) -> list[int]:
    """Return the positions of the messages that pass."""
    lines = [line(message) if message else b"" for message in messages]
    selected = LineFilter(REGISTRY[exchange], filters).select(lines)
    positions = [lines.index(each) for each in selected]
    assert positions == sorted(positions)
    return positions


def test_rows_decide_where_the_tag_names_only_the_channel() -> None:
    messages = [
        {"table": "trade", "data": [{"symbol": "ETHUSD"}]},
        {"table": "trade", "data": [{"symbol": "XBTUSD"}, {"symbol": "ETHUSD"}]},
        {"table": "quote", "data": [{"symbol": "XBTUSD"}]},
        {"table": "trade", "filter": {"symbol": "XBTUSD"}, "data": []},
        {"table": "trade", "filter": {"symbol": "ETHUSD"}, "data": []},
        {"success": True, "subscribe": "trade"},
    ]
    assert select("bitmex", [Filter("trade", ("XBTUSD",))], *messages) == [1, 3]
    assert select("bitmex", [Filter("trade")], *messages) == [0, 1, 3, 4]
    assert select("bitmex", [Filter("trade", ())], *messages) == [0, 1, 3, 4]


def test_message_about_the_whole_channel_passes() -> None:
    chat = {"table": "chat", "action": "insert", "data": [{"id": 1, "message": "hello"}]}
    assert select("bitmex", [Filter("chat", ("XBTUSD",))], chat) == [0]
    info = {"stream": "!contractInfo", "data": {"s": "BTCUSDT"}}
    assert select("binance-futures", [Filter("!contractInfo", ("btcusdt",))], info) == [0]


def test_streams_carry_channel_and_symbol() -> None:
    messages = [
        {"stream": "btcusdt@depth@100ms", "data": {}},
        {"stream": "btcusdt@depthSnapshot", "data": {}},
        {"stream": "ethusdt@depth@100ms", "data": {}},
        {"stream": "btcusdt@trade", "data": {}},
        {"stream": "!assetIndex@arr", "data": []},
    ]
    filters = [Filter("depth", ("btcusdt",)), Filter("assetIndex")]
    assert select("binance-futures", filters, *messages) == [0, 4]
    assert select("binance-futures", [Filter("trade")], *messages) == [3]


def test_deribit_channels_carry_the_instrument() -> None:
    messages = [
        {"jsonrpc": "2.0", "method": "subscription", "params": {"channel": channel, "data": {}}}
        for channel in (
            *("book.BTC-PERPETUAL.raw", "book.ETH-PERPETUAL.raw", "platform_state"),
            *("markprice.options.btc_usd", "deribit_price_index.btc_usd"),
        )
    ]
    assert select("deribit", [Filter("book", ("BTC-PERPETUAL",))], *messages) == [0]
    assert select("deribit", [Filter("platform_state", ("any",))], *messages) == [2]
    assert select("deribit", [Filter("markprice.options", ("btc_usd",))], *messages) == [3]


def test_coinbase_products_decide() -> None:
    messages = [
        {"type": "match", "product_id": "BTC-USD"},
        {"type": "match", "product_id": "ETH-USD"},
        {"type": "subscriptions", "channels": []},
    ]
    filters = [Filter("match", ("ETH-USD",)), Filter("subscriptions", ("ETH-USD",))]
    assert select("coinbase", filters, *messages) == [1, 2]


def test_filters_of_one_channel_are_joined() -> None:
    messages = [{"stream": f"{name}@trade", "data": {}} for name in "abc"]
    filters = [Filter("trade", ("a",)), Filter("trade", ("c",)), Filter("trade")]
    assert select("binance", filters, *messages) == [0, 2]


def test_disconnect_markers_pass() -> None:
    lines = [b"", line({"table": "chat"}), b"", line({"table": "trade", "data": []}), b""]
    selected = LineFilter(REGISTRY["bitmex"], [Filter("trade")]).select(lines)
    assert selected == [b"", b"", lines[3], b""]


def test_everything_passes_without_filters() -> None:
    lines = [b"anything", b""]
    assert LineFilter(REGISTRY["bitmex"], []).select(lines) == lines


@pytest.mark.parametrize("message", [b"no json", b'{"table":"trade","data":[{"symbol":5}]}', b"[]"])
def test_unreadable_line_is_an_error(message: bytes) -> None:
    with pytest.raises(MappingError, match="bitmex"):
        select("bitmex", [Filter("trade", ("XBTUSD",))], message)


def test_exchange_without_mappers_cannot_be_filtered() -> None:
    with pytest.raises(UnsupportedError, match="kraken"):
        LineFilter(CATALOG["kraken"], [Filter("trade")])
