"""The state behind derivative tickers."""

import msgspec
import pytest

from tardis_machine.exchanges.tickers import PendingTickers
from tardis_machine.model.records import Record
from tests.unit.exchanges.mapping import LOCAL


def test_ticker_is_taken_once_per_change() -> None:
    ticker = PendingTickers("x").of("BTC")
    assert ticker.take(LOCAL) is None
    ticker.update(last_price=1.0, mark_price=None)
    record = ticker.take(LOCAL)
    assert record is not None
    assert (record.last_price, record.symbol, record.exchange) == (1.0, "BTC", "x")
    ticker.update(last_price=1.0)
    assert ticker.take(LOCAL) is None


def test_ticker_keeps_known_values_and_zero_is_one() -> None:
    ticker = PendingTickers("x").of("BTC")
    ticker.update(last_price=1.0, funding_rate=0.0)
    ticker.take(LOCAL)
    ticker.update(mark_price=2.0, last_price=None)
    record = ticker.take(LOCAL)
    assert record is not None
    assert (record.last_price, record.funding_rate, record.mark_price) == (1.0, 0.0, 2.0)


def test_time_moves_only_forward_and_is_no_change() -> None:
    ticker = PendingTickers("x").of("BTC")
    ticker.update(last_price=1.0)
    ticker.advance("2024-03-01T00:00:02.000Z")
    ticker.advance("2024-03-01T00:00:01.999999Z")
    record = ticker.take(LOCAL)
    assert record is not None
    assert record.timestamp == "2024-03-01T00:00:02.000Z"
    ticker.advance("2024-03-01T00:00:02.000001Z")
    assert ticker.take(LOCAL) is None


def test_ticker_without_time_has_that_of_its_arrival() -> None:
    ticker = PendingTickers("x").of("BTC")
    ticker.update(last_price=1.0)
    record = ticker.take(LOCAL)
    assert record is not None
    assert record.timestamp == LOCAL


@pytest.mark.parametrize(
    ("later", "shown"),
    [
        ("2024-03-01T00:00:00.000Z", LOCAL),
        ("2024-03-01T00:00:00.123455Z", LOCAL),
        ("2024-03-01T00:00:00.123Z", LOCAL),
        ("2024-03-01T00:00:00.124Z", "2024-03-01T00:00:00.124Z"),
        ("2024-03-01T00:00:00.123457Z", "2024-03-01T00:00:00.123457Z"),
    ],
)
def test_time_of_arrival_is_kept_until_a_later_exchange_time(later: str, shown: str) -> None:
    ticker = PendingTickers("x").of("BTC")
    ticker.update(last_price=1.0)
    ticker.take(LOCAL)
    ticker.advance(later)
    ticker.update(last_price=2.0)
    record = ticker.take("2024-03-01T00:00:09.000000Z")
    assert record is not None
    assert record.timestamp == shown


def test_change_emits_the_full_ticker_once() -> None:
    tickers, records = PendingTickers("x"), list[Record]()
    time = "2024-03-01T00:00:02.000Z"
    tickers.change("BTC", time, LOCAL, records.append, last_price=1.0, mark_price=None)
    tickers.change("BTC", time, LOCAL, records.append, last_price=1.0)
    tickers.change("BTC", None, LOCAL, records.append, mark_price=2.0)
    tickers.change("ETH", None, LOCAL, records.append)
    assert [msgspec.to_builtins(record) for record in records] == [
        {
            "type": "derivative_ticker",
            "symbol": "BTC",
            "exchange": "x",
            "timestamp": time,
            "localTimestamp": LOCAL,
            "lastPrice": 1.0,
            **more,
        }
        for more in ({}, {"markPrice": 2.0})
    ]


def test_symbols_are_apart() -> None:
    tickers = PendingTickers("x")
    tickers.of("BTC").update(last_price=1.0)
    assert "BTC" in tickers
    assert "ETH" not in tickers
    assert tickers.of("ETH").take(LOCAL) is None
