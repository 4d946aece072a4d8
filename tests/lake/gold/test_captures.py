"""Partial and complete captures of a minute: Silver keeps both, Gold is the complete one."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tardis_machine.bronze.cases import PayloadCase
from tests.lake.events import book_ticker, encoded, partial, quote, ticker, trade
from tests.lake.gold.test_build import gold
from tests.lake.lakes import Lake

pytestmark = pytest.mark.spark

PARTIAL = "partial:2024-03-01T12:00:00.000000Z"
COMPLETE = [
    trade(1, 100),
    quote(1, 99, 101),
    quote(5, 98, 102),
    ticker(1, 0.01, 3600, mark_price=100.5, open_interest=7.0),
    ticker(9, 0.02, 3600, mark_price=100.7, open_interest=7.0),
]
LACKING = [
    trade(1, 100),
    # More of them than complete ones, at the same and at other times.
    quote(1, 99, 150),
    quote(2, 98, 151),
    quote(3, 97, 152),
    quote(5, 96, 153),
    # A value that is new only to who began late.
    ticker(9, 0.02, 3600),
    ticker(30, 0.02, 3600),
    book_ticker(61, 99, 101),
]
CASES = (PayloadCase.QUOTE, PayloadCase.DERIVATIVE_TICKER, PayloadCase.BOOK_TICKER)


def test_gold_is_that_of_the_complete_replay_though_a_partial_one_came_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    alone, late = (Lake(spark, tmp_path / name) for name in ("alone", "late"))
    lacking = encoded(LACKING, content=partial(*CASES))
    # Nobody else has the book tickers.
    alone.deliver(encoded(COMPLETE) + encoded(LACKING[-1:], content=partial(*CASES)))
    alone.build()
    for part in (lacking, encoded(COMPLETE)):
        late.deliver(part)
        late.build()
    expected, found = gold(alone), gold(late)
    # It has a row for each capture.
    del expected["gold.coverage"], found["gold.coverage"]
    assert found == expected
    assert late.values("gold.funding", "funding_rate", "mark_price") == [(0.02, 100.7)]
    captures = late.values("silver.quotes", "capture", "ask_price")
    assert captures == [
        *(("history", 101.0), ("history", 102.0)),
        *((PARTIAL, price) for price in (150.0, 151.0, 152.0, 153.0)),
    ]
    preferred = late.values("gold.coverage", "data_type", "capture", "is_preferred")
    assert preferred == [
        ("book_ticker", PARTIAL, True),
        ("derivative_ticker", "history", True),
        ("derivative_ticker", PARTIAL, False),
        ("quote", "history", True),
        ("quote", PARTIAL, False),
        ("trade", "history", True),
    ]
