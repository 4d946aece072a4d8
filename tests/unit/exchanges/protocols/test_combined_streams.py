"""Combined streams: trades, tickers, filters and subscriptions."""

from typing import Any

import pytest
from msgspec import UNSET

from tardis_machine.exchanges.protocols.combined_streams import locate, read_subscribe
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import LOCAL, map_messages


def trade(**changes: Any) -> Any:
    data = {"s": "BTCUSDT", "t": 1, "p": "1.5", "q": "2", "T": 1709251200000, "m": True}
    return {"stream": "btcusdt@trade", "data": data | changes}


def mark_price(**changes: Any) -> Any:
    data = {"e": "markPriceUpdate", "E": 1709251200000, "s": "BTCUSDT", "p": "1"}
    return {"stream": "btcusdt@markPrice@1s", "data": data | changes}


def test_trade_id_above_double_precision_stays_exact() -> None:
    (record,) = map_messages("binance", "trade", trade(t=2**53 + 1))
    assert record.id == "9007199254740993"


@pytest.mark.parametrize("kind", ["INSURANCE_FUND", "ADL", "NA"])
def test_off_book_trade_is_left_out(kind: str) -> None:
    records = map_messages("binance-futures", "trade", trade(X=kind), trade(X="MARKET"), trade())
    assert len(records) == 2


def test_aggregated_trades_are_another_channel() -> None:
    message = {"stream": "btcusdt@aggTrade", "data": {"e": "aggTrade"}}
    assert map_messages("binance", ["trade", "book_change", "book_ticker"], message) == []


def test_absent_side_of_a_book_ticker_is_left_out() -> None:
    message = {"stream": "a@bookTicker", "data": {"s": "A", "b": "0", "B": None}}
    (record,) = map_messages("binance", "book_ticker", message)
    assert record.bid_price == 0.0
    assert record.bid_amount is record.ask_price is record.ask_amount is UNSET
    assert record.timestamp == LOCAL


@pytest.mark.parametrize("rate", ["0.00000000", 0, "0"])
def test_zero_funding_rate_is_a_rate(rate: Any) -> None:
    message = mark_price(r=rate, T=1709280000000)
    (record,) = map_messages("binance-futures", "derivative_ticker", message)
    assert record.funding_rate == 0.0
    assert record.funding_timestamp == "2024-03-01T08:00:00.000Z"


@pytest.mark.parametrize("fields", [{"r": "", "T": 0}, {"r": "0.1", "T": 0}, {"r": "", "T": 5}, {}])
def test_contract_without_funding_has_none(fields: dict[str, Any]) -> None:
    (record,) = map_messages("binance-futures", "derivative_ticker", mark_price(**fields))
    assert not record.funding_rate
    assert not record.funding_timestamp


def test_other_events_of_ticker_streams_are_ignored() -> None:
    ticker = {"e": "other", "E": 1, "s": "A", "c": "1"}
    messages = [mark_price(e="other"), {"stream": "a@ticker", "data": ticker}]
    assert map_messages("binance-futures", "derivative_ticker", *messages) == []


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ("btcusdt@depth@100ms", Filter("depth", ("btcusdt",))),
        ("btcusdt@trade", Filter("trade", ("btcusdt",))),
        ("!contractInfo", Filter("!contractInfo")),
        ("!ticker@arr", Filter("ticker")),
    ],
)
def test_stream_is_located(stream: str, expected: Filter) -> None:
    assert locate(stream) == expected


def test_subscription_drops_the_speed() -> None:
    message = {"method": "SUBSCRIBE", "params": ["a@depth@100ms", "b@trade"], "id": 1}
    assert read_subscribe(message) == [Filter("depth", ("a",)), Filter("trade", ("b",))]


def test_name_without_channel_is_mapped_as_clients_know_it() -> None:
    message = {"method": "SUBSCRIBE", "params": ["nochannel"]}
    assert read_subscribe(message) == [Filter("nochannel", ("nochanne",))]


def test_other_methods_are_no_subscription() -> None:
    assert read_subscribe({"method": "UNSUBSCRIBE", "params": ["a@trade"]}) is None
