"""A query opens only files that can have rows for it, and finds all of them."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tardis_machine.lake.errors import QueryError
from tardis_machine.lake.query.delta import read_as_of
from tardis_machine.lake.query.pruning import file_condition
from tardis_machine.lake.query.sql import Query
from tardis_machine.model.errors import SettingsError

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
SYMBOLS = ("ADAUSD", "ETHUSD", "XBTUSD")
COLUMNS = ("min.symbol", "max.symbol", "partition.date", "min.event_ts", "max.event_ts")


def rows_of(day: int, symbol: str | None) -> pa.Table:
    """Return the rows of one file: a minute of a symbol."""
    start = NOON + timedelta(days=day)
    return pa.table(
        {
            "date": [start.date()] * 3,
            "exchange": ["bitmex"] * 3,
            "symbol": [symbol] * 3,
            "event_ts": [start + timedelta(seconds=at) for at in (0, 1.0000009, 2)],
            "price": [100.0 + day, 101.0 + day, None],
        }
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a lake with a table of twelve files, of which three have no symbol."""
    root = tmp_path / "a lake"
    for symbol in (*SYMBOLS, None):
        for day in range(3):
            path = root / "silver" / "trades"
            write_deltalake(path, rows_of(day, symbol), partition_by=["date"], mode="append")
    return root


def ask(root: Path, sql: str, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Query(str(root), sql, **options).lines("json")]


@pytest.mark.parametrize(
    "where",
    [
        "symbol = 'ETHUSD'",
        "symbol in ('ETHUSD', 'XBTUSD') and date >= '2024-03-02'",
        "symbol = 'it''s' or (symbol > 'E' and symbol <= 'ETHUSD')",
        "event_ts = timestamptz '2024-03-02 12:00:01.000000+00'",
        "event_ts > timestamptz '2024-03-02 12:00:02+00'",
        "event_ts between '2024-03-02 12:00:01' and '2024-03-02 14:00:01.5+02'",
        "date_trunc('day', event_ts) = '2024-03-03' and price > 101",
        "symbol is null or date = '2024-03-01'",
        "symbol <> 'ETHUSD' and not (date = '2024-03-02')",
        "symbol like 'XBT%' and price is null",
        "lower(symbol) = 'ethusd'",
        "price > (select avg(price) from silver.trades where symbol = 'ADAUSD')",
        "exists (select 1 from silver.trades o where o.symbol = 'XBTUSD' and o.date = t.date)",
    ],
)
def test_pruned_query_finds_what_a_whole_one_finds(root: Path, where: str) -> None:
    sql = f"select * from silver.trades t where {where} order by all"
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'; create schema silver")
    files = DeltaTable(root / "silver" / "trades").to_pyarrow_table()
    connection.register("whole", files)
    connection.execute("create view silver.trades as from whole")
    ((expected,),) = connection.sql(f"select count(*) from ({sql})").fetchall()
    assert len(ask(root, sql)) == expected


@pytest.mark.parametrize(
    ("sql", "needed"),
    [
        ("select * from silver.trades where symbol = 'ETHUSD' and date = '2024-03-02'", 2),
        ("with t as (from silver.trades) select 1 from t where symbol >= 'X'", 6),
        ("select * from silver.trades where event_ts < timestamptz '2024-03-01 13:00+00'", 4),
        ("select * from silver.trades limit 2", 1),
        ("select price from silver.trades where date = '2030-01-01'", 0),
    ],
)
def test_other_files_are_not_opened(root: Path, sql: str, needed: int) -> None:
    expected = ask(root, sql)
    table = DeltaTable(root / "silver" / "trades")
    spoilt = 0
    for path in table.file_uris():
        file = root / path.partition("a%20lake/")[2]
        whole = file.read_bytes()
        file.write_bytes(b"no Parquet")
        try:
            assert ask(root, sql) == expected
            spoilt += 1
        except QueryError:
            pass
        file.write_bytes(whole)
    assert spoilt == len(table.file_uris()) - needed


def test_filter_that_is_not_understood_skips_nothing() -> None:
    assert file_condition("(CAST(symbol AS INTEGER) = 3)", COLUMNS) is None
    assert file_condition("(NOT (symbol = 'a'))", COLUMNS) is None
    assert file_condition("optional: Dynamic Filter (price)", COLUMNS) is None
    assert file_condition("(price > 3)", COLUMNS) == "coalesce(true, true)"
    tricky = file_condition("(symbol = 'x) OR (1 = 1')", COLUMNS)
    assert tricky is not None
    assert tricky.count("'x) OR (1 = 1'") == 2


def test_table_is_queried_as_it_was(root: Path) -> None:
    path = root / "silver" / "trades"
    count = "select count(*) as n from silver.trades"
    assert ask(root, count, as_of=read_as_of("0")) == [{"n": 3}]
    # A version is as old as its file, which is written some time after the moment in its history.
    commits = sorted(path.glob("_delta_log/*.json"))
    now = datetime.now(UTC)
    for number, commit in enumerate(commits):
        at = now.timestamp() + 60 * number
        os.utime(commit, (at, at))
    assert ask(root, count, as_of=now + timedelta(seconds=90)) == [{"n": 6}]
    assert ask(root, count, as_of=read_as_of("2020-01-01T00:00")) == [{"n": 0}]
    with pytest.raises(QueryError, match="no version 99; the latest is 11"):
        ask(root, count, as_of=99)
    with pytest.raises(QueryError, match="name one table"):
        ask(root, "select 1 from silver.trades, silver.quotes", as_of=1)
    with pytest.raises(SettingsError, match="neither the number of a version nor a time"):
        read_as_of("yesterday")
