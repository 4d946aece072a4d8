"""Rows that the driver changes by writing their files anew."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.store.changes import CHANGE, DELETE, INSERT, UPDATE
from tardis_machine.lake.store.few_rows import append_few
from tardis_machine.lake.store.log_stats import known_times
from tardis_machine.lake.store.logs import create_empty
from tardis_machine.lake.store.rewriting import rewrite_few
from tardis_machine.lake.store.store import properties
from tardis_machine.lake.store.times import Times
from tardis_machine.lake.tables.gold import BARS
from tardis_machine.lake.tables.instruments import INSTRUMENTS
from tardis_machine.lake.tables.silver import QUARANTINE
from tardis_machine.model.time import MINUTE_US

START = datetime(2024, 3, 1, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
MAX_ROWS = 100


def bar(minute: int, interval: str = "1m", trades: int = 1) -> dict[str, Any]:
    start = START + timedelta(minutes=minute)
    return {
        "date": start.date(),
        "exchange": "bitmex",
        "symbol": "XBTUSD",
        "interval": interval,
        "open_ts": start,
        "trades": trades,
    }


def bars(rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(BARS))


def changes(**by_change: list[dict[str, Any]]) -> pa.Table:
    names = [change for change, rows in by_change.items() for _ in rows]
    rows = bars(row for rows in by_change.values() for row in rows)
    return rows.append_column(CHANGE, pa.array(names))


def found(path: str) -> list[tuple[int, str, int]]:
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    minutes = ((row["open_ts"] - START) // timedelta(minutes=1) for row in rows)
    return sorted(
        (minute, row["interval"], row["trades"]) for minute, row in zip(minutes, rows, strict=True)
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "a table")
    create_empty(path, BARS, properties(BARS))
    for rows in ([bar(0), bar(1), bar(1, "1s")], [bar(30), bar(31)], [bar(2_000)]):
        append_few(path, BARS, bars(rows))
    return path


def test_changes_are_applied_as_one_commit(path: str) -> None:
    made = {UPDATE: [bar(0, trades=5), bar(2_000, trades=6)], DELETE: [bar(31)], INSERT: [bar(40)]}
    version = DeltaTable(path).version()
    assert rewrite_few(path, BARS, changes(**made), MAX_ROWS)
    assert DeltaTable(path).version() == version + 1
    assert found(path) == [
        (0, "1m", 5),
        (1, "1m", 1),
        (1, "1s", 1),
        (30, "1m", 1),
        (40, "1m", 1),
        (2_000, "1m", 6),
    ]


def test_files_without_changed_rows_stay(path: str) -> None:
    before = set(DeltaTable(path).file_uris())
    assert rewrite_few(path, BARS, changes(update=[bar(1, trades=5)]), MAX_ROWS)
    gone = before - set(DeltaTable(path).file_uris())
    assert len(gone) == 1
    assert "interval=1m" in gone.pop()


def test_last_row_of_a_file_is_deleted_with_it(path: str) -> None:
    files = len(DeltaTable(path).file_uris())
    assert rewrite_few(path, BARS, changes(delete=[bar(2_000)]), MAX_ROWS)
    assert len(DeltaTable(path).file_uris()) == files - 1
    assert (2_000, "1m", 1) not in found(path)


def test_row_that_is_not_there_is_written(path: str) -> None:
    assert rewrite_few(path, BARS, changes(update=[bar(50, trades=5)]), MAX_ROWS)
    assert (50, "1m", 5) in found(path)
    assert len(found(path)) == 7


def test_log_has_the_times_of_new_files(path: str) -> None:
    assert rewrite_few(path, BARS, changes(update=[bar(2_000, trades=5)]), MAX_ROWS)
    minute_us = START_US + 2_000 * MINUTE_US
    assert known_times(path, "open_ts", [Times(minute_us - 9, minute_us - 1)]) == []
    assert known_times(path, "open_ts", [Times(minute_us - 9, minute_us)])


def test_commit_says_that_it_read_the_table(path: str) -> None:
    assert rewrite_few(path, BARS, changes(update=[bar(0, trades=5)]), MAX_ROWS)
    entry = max(Path(path, "_delta_log").glob("*.json")).read_text(encoding="utf-8")
    (info,) = (
        action["commitInfo"]
        for action in map(json.loads, entry.splitlines())
        if "commitInfo" in action
    )
    assert info["isBlindAppend"] is False


def test_table_that_is_compacted_meanwhile_is_left_to_a_merge(path: str) -> None:
    known: set[Path] = set()

    def compact(frame: FrameType, event: str, _: object) -> None:
        # As late as it can be: everything has been read and written.
        if event == "call" and frame.f_code.co_name == "create_write_transaction":
            sys.setprofile(None)
            before = set(Path(path).rglob("*.parquet"))
            DeltaTable(path).optimize.compact()
            known.update(set(Path(path).rglob("*.parquet")) - before)

    others = set(Path(path).rglob("*.parquet"))
    sys.setprofile(compact)
    try:
        assert not rewrite_few(path, BARS, changes(update=[bar(1, trades=5)]), MAX_ROWS)
    finally:
        sys.setprofile(None)
    assert len(found(path)) == 6
    assert (1, "1m", 1) in found(path)
    assert known
    assert set(Path(path).rglob("*.parquet")) == others | known


def test_large_files_are_left_to_a_merge(path: str) -> None:
    version = DeltaTable(path).version()
    assert not rewrite_few(path, BARS, changes(update=[bar(0, trades=5)]), max_rows=1)
    assert DeltaTable(path).version() == version


def test_table_of_a_newer_version_is_left_to_a_merge(tmp_path: Path) -> None:
    schema = arrow_schema(BARS).append(pa.field("new", pa.string()))
    rows = pa.Table.from_pylist([bar(0) | {"new": "x"}], schema=schema)
    write_deltalake(str(tmp_path), rows, partition_by=list(BARS.partition_by))
    assert not rewrite_few(str(tmp_path), BARS, changes(update=[bar(0, trades=5)]), MAX_ROWS)


def test_table_whose_keys_may_be_null_is_left_to_a_merge(tmp_path: Path) -> None:
    path = str(tmp_path)
    create_empty(path, QUARANTINE, properties(QUARANTINE))
    row = pa.Table.from_pylist([{"date": START.date()}], schema=arrow_schema(QUARANTINE))
    assert not rewrite_few(path, QUARANTINE, row.append_column(CHANGE, [[UPDATE]]), MAX_ROWS)


def test_table_without_partitions_is_changed(tmp_path: Path) -> None:
    path = str(tmp_path)
    row = {"exchange": "bitmex", "symbol": "XBTUSD", "valid_from": START, "base": "BTC"}
    others = [row | {"symbol": "ETHUSD"}, row]
    schema = arrow_schema(INSTRUMENTS)
    create_empty(path, INSTRUMENTS, properties(INSTRUMENTS))
    append_few(path, INSTRUMENTS, pa.Table.from_pylist(others, schema=schema))
    new = pa.Table.from_pylist([row | {"base": "XBT"}], schema=schema)
    assert rewrite_few(path, INSTRUMENTS, new.append_column(CHANGE, [[UPDATE]]), MAX_ROWS)
    kept = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert {each["symbol"]: each["base"] for each in kept} == {"XBTUSD": "XBT", "ETHUSD": "BTC"}
