"""Quotes of three sources to one row per second: spread, mid and microprice."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tardis_machine.lake.gold.quotes import (
    finished_quotes,
    of_finest_source,
    quote_events,
    quote_seconds,
)
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.silver import BOOK_SNAPSHOTS, BOOK_TICKERS, QUOTES
from tests.lake.frames import event, frame, values

pytestmark = pytest.mark.spark

TOP = ("bid_price", "bid_amount", "ask_price", "ask_amount")


def top(
    seconds: float, bid: float | None, ask: float | None, amounts: Any = (3.0, 1.0), **columns: Any
) -> dict[str, Any]:
    numbers = dict(zip(TOP, (bid, amounts[0], ask, amounts[1]), strict=True))
    return event(seconds, name="quote") | numbers | columns


def seconds_of(spark: SparkSession, table: Table, rows: list[dict[str, Any]]) -> DataFrame:
    return frame(spark, table, rows).transform(quote_events, table).transform(quote_seconds)


def test_last_quote_of_a_second_gives_spread_mid_and_microprice(spark: SparkSession) -> None:
    quotes = [
        top(1.2, 90, 110),
        top(1.8, 99, 101),
        top(1.5, 80, 120),
        top(2.1, 100, None),
        top(3.1, 100, 101, amounts=(0.0, 0.0)),
    ]
    rows = seconds_of(spark, QUOTES, quotes).transform(finished_quotes)
    columns = ("second", "basis", "bid_price", "ask_price", "spread", "mid", "microprice")
    assert values(rows, *columns, "updates") == [
        (1.0, "quotes", 99.0, 101.0, 2.0, 100.0, (99 * 1 + 101 * 3) / 4, 3),
        (2.0, "quotes", 100.0, None, None, None, None, 1),
        (3.0, "quotes", 100.0, 101.0, 1.0, 100.5, None, 1),
    ]


def test_snapshot_gives_its_best_levels(spark: SparkSession) -> None:
    levels = {
        "bid_prices": [99.0, 98.0],
        "bid_amounts": [1.0, 5.0],
        "ask_prices": [101.0],
        "ask_amounts": [3.0],
    }
    empty: dict[str, list[float]] = {name: [] for name in levels}
    snapshots = [
        event(1, name="book_snapshot_2_1s", **levels),
        event(2, name="book_snapshot_2_1s", **empty),
    ]
    rows = seconds_of(spark, BOOK_SNAPSHOTS, snapshots)
    assert values(rows, "second", "data_type", *TOP) == [
        (1.0, "book_snapshot_2_1s", 99.0, 1.0, 101.0, 3.0),
        (2.0, "book_snapshot_2_1s", None, None, None, None),
    ]


def test_finest_source_counts_second_by_second(spark: SparkSession) -> None:
    tickers = seconds_of(spark, BOOK_TICKERS, [top(1, 1, 2), top(2, 3, 4), top(62, 5, 6)])
    quotes = seconds_of(
        spark,
        QUOTES,
        [
            top(2, 11, 12, name="quote_1s", interval=1000.0),
            top(4, 13, 14, name="quote_1s", interval=1000.0),
            top(2.5, 15, 16, interval=0.0),
            top(60, 17, 18, name="quote_1m", interval=60_000.0),
            top(63, 19, 20, name="quote_1m", interval=60_000.0),
        ],
    )
    best = tickers.unionByName(quotes).transform(of_finest_source)
    # A quote per interval tells what stood at the end of the second before its time.
    assert values(best, "second", "data_type", "bid_price") == [
        (1.0, "book_ticker", 1.0),
        (2.0, "quote", 15.0),
        (3.0, "quote_1s", 13.0),
        (59.0, "quote_1m", 17.0),
        (62.0, "book_ticker", 5.0),
    ]
