"""Rows that the driver writes to tables without Spark."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.store.changes import CHANGE, DELETE, INSERT, UPDATE
from tardis_machine.lake.store.few_rows import (
    append_few,
    can_express,
    counts_of,
    insert_few,
    read_few,
    replace_few,
)
from tardis_machine.lake.store.log_stats import known_times
from tardis_machine.lake.store.logs import create_empty
from tardis_machine.lake.store.store import properties
from tardis_machine.lake.store.times import Times, in_spans, on_days
from tardis_machine.lake.tables.gold import BARS, LIQUIDATIONS_1M
from tardis_machine.lake.tables.silver import TRADES
from tardis_machine.model.time import MINUTE_US

DAY = date(2024, 3, 1)
START = datetime(2024, 3, 1, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
KEYS = [f"t.{name} = s.{name}" for name in LIQUIDATIONS_1M.key]


def minute(number: int, buys: int = 1) -> dict[str, Any]:
    start = START + timedelta(minutes=number)
    return {"date": DAY, "exchange": "bitmex", "symbol": "X", "minute": start, "buys": buys}


def minute_span(number: int) -> Times:
    first_us = START_US + number * MINUTE_US
    return Times(first_us, first_us + MINUTE_US - 1)


def minutes(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(LIQUIDATIONS_1M))


def found(path: str) -> list[tuple[int, int]]:
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted(((row["minute"] - START).seconds // 60, row["buys"]) for row in rows)


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "a table")
    create_empty(path, LIQUIDATIONS_1M, properties(LIQUIDATIONS_1M))
    append_few(path, LIQUIDATIONS_1M, minutes(minute(0), minute(1), minute(2)))
    return path


def test_rows_are_read_of_the_wanted_spans(path: str) -> None:
    append_few(path, LIQUIDATIONS_1M, minutes(minute(2_000), minute(3_000)))
    spans = [Times(START_US, START_US + 1), minute_span(2), minute_span(3_000), minute_span(4_000)]
    rows = read_few(path, LIQUIDATIONS_1M, "minute", spans)
    assert rows.schema == arrow_schema(LIQUIDATIONS_1M)
    numbers = ((row["minute"] - START) // timedelta(minutes=1) for row in rows.to_pylist())
    assert sorted(numbers) == [0, 2, 3_000]
    assert len(read_few(path, LIQUIDATIONS_1M, "minute", [minute_span(4_000)])) == 0


def test_rows_are_read_of_the_wanted_partitions(tmp_path: Path) -> None:
    path, times = str(tmp_path / "bars"), {"date": DAY, "open_ts": START}
    bars = [
        times | {"exchange": "bitmex", "symbol": "X", "interval": interval}
        for interval in ("1s", "1m", "1h")
    ]
    create_empty(path, BARS, properties(BARS))
    append_few(path, BARS, pa.Table.from_pylist(bars, schema=arrow_schema(BARS)))
    rows = read_few(path, BARS, "open_ts", [minute_span(0)], interval=("1s", "1h"))
    assert sorted(rows["interval"].to_pylist()) == ["1h", "1s"]
    assert set(rows["date"].to_pylist()) == {DAY}


def test_known_rows_are_not_inserted(path: str) -> None:
    insert_few(path, LIQUIDATIONS_1M, minutes(minute(2, buys=9), minute(3)), KEYS)
    assert found(path) == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_changes_are_applied_within_their_bounds(path: str) -> None:
    span = Times(START_US, START_US + 3600 * 1_000_000)
    bounds = [on_days("date", [span]), in_spans("minute", [span])]
    rows = minutes(minute(0, buys=5), minute(1), minute(7))
    changes = rows.append_column(CHANGE, pa.array([UPDATE, DELETE, INSERT]))
    assert counts_of(changes) == {UPDATE: 1, DELETE: 1, INSERT: 1}
    replace_few(path, LIQUIDATIONS_1M, changes, [*bounds, *KEYS])
    assert found(path) == [(0, 5), (2, 1), (7, 1)]


def test_table_of_a_newer_version_keeps_its_columns(tmp_path: Path) -> None:
    schema = arrow_schema(TRADES).append(pa.field("new", pa.string()))
    path = str(tmp_path)
    write_deltalake(path, pa.Table.from_pylist([{"date": DAY, "new": "x"}], schema=schema))
    row = pa.Table.from_pylist([{"date": DAY, "local_ts": START}], schema=arrow_schema(TRADES))
    append_few(path, TRADES, row)
    insert_few(path, TRADES, row, ["t.local_ts IS NOT DISTINCT FROM s.local_ts"])
    kept = DeltaTable(path).to_pyarrow_table()
    assert sorted(kept["new"].to_pylist(), key=str) == [None, "x"]


def test_log_has_the_times_of_the_rows(tmp_path: Path) -> None:
    path = str(tmp_path)
    create_empty(path, TRADES, properties(TRADES))
    row = {"date": DAY, "local_ts": START, "event_ts": START}
    append_few(path, TRADES, pa.Table.from_pylist([row], schema=arrow_schema(TRADES)))
    assert known_times(path, "local_ts", [Times(START_US - 9, START_US - 1)]) == []
    assert known_times(path, "local_ts", [Times(START_US - 9, START_US)])
    files = pa.table(DeltaTable(path).get_add_actions(flatten=True))
    lowest = {name for name in files.column_names if name.startswith("min.")}
    assert lowest == {"min.exchange", "min.symbol", "min.local_ts", "min.event_ts"}


def test_times_that_the_writer_does_not_know_are_told() -> None:
    assert can_express([Times(START_US, START_US)])
    assert not can_express([Times(START_US, 253_402_300_799_999_999)])
