"""Tickers to the last statement about each funding event."""

import pytest
from pyspark.sql import SparkSession

from tardis_machine.lake.gold.funding import funding_rates, last_rates
from tardis_machine.lake.tables.silver import DERIVATIVE_TICKERS
from tests.lake.frames import at, event, frame, values

pytestmark = pytest.mark.spark


def test_last_statement_about_a_funding_event_counts(spark: SparkSession) -> None:
    tickers = [
        event(10, funding_ts=at(3600), funding_rate=0.01, mark_price=100.0),
        event(30, funding_ts=at(3600), funding_rate=0.03, mark_price=103.0),
        event(20, funding_ts=at(3600), funding_rate=0.02, predicted_funding_rate=0.5),
        event(40, funding_ts=at(3600), mark_price=999.0),
        event(50, funding_rate=0.9),
        event(60, funding_ts=at(50_000), funding_rate=-0.04, open_interest=7.0),
        event(60, funding_ts=at(3600), funding_rate=0.07, symbol="ETHUSD"),
        event(61, funding_ts=at(3600), funding_rate=0.08, symbol="ETHUSD", capture="live:a"),
    ]
    rows = frame(spark, DERIVATIVE_TICKERS, tickers).transform(funding_rates).transform(last_rates)
    stated = ("symbol", "funding_ts", "funding_rate", "predicted_funding_rate", "mark_price")
    assert values(rows, *stated, "open_interest", "as_of_ts") == [
        ("ETHUSD", 3600.0, 0.08, None, None, None, 61.0),
        ("XBTUSD", 3600.0, 0.03, None, 103.0, None, 30.0),
        ("XBTUSD", 50000.0, -0.04, None, None, 7.0, 60.0),
    ]
    days = {str(row.date) for row in rows.select("date").collect()}
    assert days == {"2024-03-01", "2024-03-02"}
