"""Bronze rows to Silver rows, table by table: decode, check, drop repetitions."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tardis_machine.lake.silver.limits import EventLimits
from tardis_machine.lake.silver.plan import has_repetitions
from tardis_machine.lake.silver.rows import (
    PROBLEM,
    checked,
    first_per_event,
    quarantine_rows,
    silver_rows,
)
from tardis_machine.lake.tables import SILVER_BY_CASE
from tardis_machine.lake.tables.silver import BOOK_CHANGES, QUARANTINE, TRADES
from tests.lake.events import (
    bronze_rows,
    encoded,
    of_every_case,
    quote,
    trade,
)
from tests.lake.frames import event, frame, values
from tests.lake.oracle import moment, payload_of

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("case", SILVER_BY_CASE)
def test_rows_equal_the_records(spark: SparkSession, case: str) -> None:
    records, table = of_every_case()[case], SILVER_BY_CASE[case]
    rows = bronze_rows(spark, encoded(records)).transform(silver_rows, case)
    assert rows.columns == [*table.column_names, PROBLEM]
    found = sorted(rows.toArrow().to_pylist(), key=lambda row: (row["local_ts"], row["ordinal"]))
    for record, row in zip(records, found, strict=True):
        expected: dict[str, Any] = {
            "date": moment(record.local_timestamp).date(),
            "local_ts": moment(record.local_timestamp),
            "exchange": record.exchange,
            "symbol": getattr(record, "symbol", ""),
            "capture": "history",
            "producer": "producer",
            "origin": "replay",
            "ingest_ts": datetime(2024, 3, 1, 13, tzinfo=UTC),
            PROBLEM: None,
            **payload_of(record, table),
        }
        assert {name: row[name] for name in expected} == expected


def test_rule_that_a_row_breaks_is_named(spark: SparkSession) -> None:
    bad = {
        "no exchange": trade(1, exchange=""),
        "no symbol": trade(2, symbol=""),
        "price or amount is not a number": trade(3, amount=float("inf")),
        "local time in the future": trade(4, local_timestamp="2024-03-02T13:00:00.000001Z"),
        "event time too far from local time": trade(8, timestamp="1970-01-01T00:00:00.000Z"),
    }
    fine = [trade(5), trade(6, local_timestamp="2024-03-02T13:00:00.000000Z"), trade(7, price=-1.0)]
    rows = bronze_rows(spark, encoded([*bad.values(), *fine])).transform(silver_rows, "trade")
    assert values(rows, PROBLEM) == sorted([(reason,) for reason in bad] + [(None,)] * 3, key=str)
    far = bronze_rows(spark, encoded([trade(1, timestamp="2024-03-08T12:00:00.000Z")]))
    for limits in (EventLimits(late_exchanges=("bitmex",)), EventLimits(max_skew_seconds=0)):
        accepted = far.transform(silver_rows, "trade", limits=limits)
        assert values(accepted, PROBLEM) == [(None,)]
    refused = far.transform(silver_rows, "trade", limits=EventLimits(max_skew_seconds=60))
    assert values(refused, PROBLEM) == [("event time too far from local time",)]


def test_uneven_levels_are_refused(spark: SparkSession) -> None:
    changes = [
        event(1, bid_prices=[1.0], bid_amounts=[], ask_prices=[], ask_amounts=[]),
        event(2, bid_prices=[], bid_amounts=[], ask_prices=[1.0, 2.0], ask_amounts=[1.0]),
        event(3, bid_prices=[1.0], bid_amounts=[2.0], ask_prices=[], ask_amounts=[]),
    ]
    rows = frame(spark, BOOK_CHANGES, changes).selectExpr("*", "CAST(NULL AS STRING) AS problem")
    uneven = "prices and amounts differ in number"
    found = values(rows.transform(checked, BOOK_CHANGES), "event_ts", PROBLEM)
    assert found == [(1.0, uneven), (2.0, uneven), (3.0, None)]


def test_first_encoded_copy_of_an_event_remains(spark: SparkSession) -> None:
    day = datetime(2024, 3, 1, tzinfo=UTC).date()
    copies = [
        event(1, date=day, producer=producer, ingest_ts=datetime(2024, 3, 1, hour, tzinfo=UTC))
        for producer, hour in (("late", 15), ("first", 13), ("second", 14))
    ]
    others = [
        event(1, date=day, producer="other", ordinal=1),
        event(1, date=day, producer="live", capture="live:a"),
        event(1, date=day, producer="eth", symbol="ETHUSD"),
    ]
    rows = frame(spark, TRADES, copies + others).transform(first_per_event, TRADES)
    assert values(rows, "producer") == [("eth",), ("first",), ("live",), ("other",)]


def test_repetitions_are_found(spark: SparkSession) -> None:
    once = encoded([trade(1), trade(1), quote(1, 1, 2), quote(1, 1, 2, name="quote_1s")])
    assert not has_repetitions(bronze_rows(spark, [*once, b"", b""]))
    assert has_repetitions(bronze_rows(spark, [*once, *encoded([trade(1)])]))


def test_quarantine_rows_keep_their_bytes_and_coordinates(spark: SparkSession) -> None:
    bad = encoded([trade(1, float("nan"))])[0]
    rows = bronze_rows(spark, [*encoded([trade(1)]), bad], partition="7")
    refused = rows.transform(quarantine_rows, "trade")
    assert refused.columns == list(QUARANTINE.column_names)
    columns = ("reason", "bus", "stream", "partition", "position", "symbol", "envelope")
    reason = "price or amount is not a number"
    assert values(refused, *columns) == [(reason, "test", "events", "7", "1", "XBTUSD", bad)]


def test_unread_rows_say_why(spark: SparkSession) -> None:
    rows = bronze_rows(spark, [None, b"", b"\xff"])
    refused = rows.transform(quarantine_rows, "unreadable")
    assert values(refused, "position", "reason") == [
        ("0", "null record"),
        ("1", "empty record"),
        ("2", "malformed envelope"),
    ]
