"""DuckDB and Polars read every table, and find what Spark finds."""

from datetime import UTC, datetime
from typing import Any

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.tables import TABLES, Table, table_named
from tests.lake.lakes import Lake

pytestmark = pytest.mark.spark

# Nothing is refused in this lake.
FILLED = [name for name in TABLES if name != "silver.quarantine"]


def in_spark(lake: Lake, table: Table) -> list[dict[str, Any]]:
    return Store(lake.spark, lake.root).read(table).toArrow().to_pylist()


def in_duckdb(lake: Lake, table: Table) -> list[dict[str, Any]]:
    files = DeltaTable(f"{lake.root}/{table.path}").file_uris()
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        rows = connection.read_parquet(files, hive_partitioning=True, union_by_name=True)
        return rows.to_arrow_table().to_pylist()


def in_polars(lake: Lake, table: Table) -> list[dict[str, Any]]:
    return polars.read_delta(f"{lake.root}/{table.path}").to_dicts()


def comparable(rows: list[dict[str, Any]], table: Table) -> list[str]:
    """Return rows as sorted text: columns in order, times in UTC."""
    return sorted(str([_plain(row[name]) for name in table.column_names]) for row in rows)


def _plain(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    return (
        value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    ).isoformat()


@pytest.mark.parametrize("name", FILLED)
def test_engines_agree_on_every_table(full_lake: Lake, name: str) -> None:
    table = table_named(name)
    expected = comparable(in_spark(full_lake, table), table)
    assert expected
    assert comparable(in_duckdb(full_lake, table), table) == expected
    assert comparable(in_polars(full_lake, table), table) == expected


def test_queries_join_tables_by_name(full_lake: Lake) -> None:
    query = Query(
        full_lake.root,
        "select b.exchange, b.trades, count(*) as n from gold.bars b join silver.trades t "
        "on t.exchange = b.exchange and t.symbol = b.symbol "
        "and t.event_ts between b.open_ts and b.open_ts + interval 1 day "
        "where b.interval = '1d' group by all order by all",
    )
    assert list(query.lines("csv")) == ["exchange,trades,n\n", '"bitmex",3,3\n"deribit",1,1\n']
