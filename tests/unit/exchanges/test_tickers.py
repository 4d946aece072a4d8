"""The state behind derivative tickers."""

from tardis_machine.exchanges.tickers import PendingTickers
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


def test_symbols_are_apart() -> None:
    tickers = PendingTickers("x")
    tickers.of("BTC").update(last_price=1.0)
    assert "BTC" in tickers
    assert "ETH" not in tickers
    assert tickers.of("ETH").take(LOCAL) is None
