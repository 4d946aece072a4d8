"""What Binance's own ids add to combined streams."""

import msgspec
import pytest

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import replay_filters
from tardis_machine.model.errors import MappingError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import LOCAL, NOW_US, connect_live, feed_live, map_messages


def test_delivery_asks_for_index_prices_by_pair() -> None:
    filters = replay_filters(
        REGISTRY["binance-delivery"], ["derivative_ticker"], ["BTCUSD_PERP"], 0, NOW_US
    )
    assert filters[-1] == Filter("indexPrice", ("btcusd",))
    assert filters[0] == Filter("markPrice", ("btcusd_perp",))


def test_index_price_waits_for_a_contract_of_its_pair() -> None:
    index = {
        "stream": "btcusd@indexPrice",
        "data": {"e": "indexPriceUpdate", "i": "BTCUSD", "p": 5},
    }
    interest = [
        {"stream": f"{name}@openInterest", "data": {"symbol": name, "openInterest": "1"}}
        for name in ("ETHUSD_PERP", "BTCUSD_PERP", "BTCUSD_240628")
    ]
    records = map_messages("binance-delivery", "derivative_ticker", index, *interest)
    assert [record.index_price or None for record in records] == [None, 5.0, 5.0]


def test_only_delivery_reads_index_prices() -> None:
    index = {"stream": "a@indexPrice", "data": {"e": "indexPriceUpdate", "i": "A", "p": 5}}
    interest = {"stream": "a@openInterest", "data": {"symbol": "A", "openInterest": "1"}}
    (record,) = map_messages("binance-futures", "derivative_ticker", index, interest)
    assert not record.index_price


def test_another_event_among_live_trades_is_shown_as_a_blank_trade() -> None:
    other = {"stream": "btcusdt@trade", "data": {"e": "unknown", "s": "BTCUSDT"}}
    (record,) = feed_live(connect_live("binance", "trade"), other)
    assert msgspec.json.decode(msgspec.json.encode(record)) == {
        "type": "trade",
        "symbol": "BTCUSDT",
        "exchange": "binance",
        "id": "undefined",
        "price": None,
        "amount": None,
        "side": "buy",
        "timestamp": None,
        "localTimestamp": LOCAL,
    }


@pytest.mark.parametrize("missing", ["t", "p", "q", "T"])
def test_half_trade_is_an_error_also_live(missing: str) -> None:
    data = {"e": "trade", "s": "BTCUSDT", "t": 1, "p": "1", "q": "1", "T": 1}
    del data[missing]
    with pytest.raises(MappingError, match="missing"):
        feed_live(connect_live("binance", "trade"), {"stream": "btcusdt@trade", "data": data})
