"""SQL without Spark, and what the lake says of its tables."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import write_deltalake

from tardis_machine.lake.errors import QueryError
from tardis_machine.lake.query.inventory import list_tables
from tardis_machine.lake.query.sql import Query, mentioned_tables


@pytest.fixture
def lake(tmp_path: Path) -> str:
    rows = pa.table(
        {
            "exchange": ["bitmex", "bitmex", "deribit"],
            "price": [1.5, 2.5, 3.5],
            "local_ts": pa.array([datetime(2024, 3, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
            "date": pa.array([date(2024, 3, 1), date(2024, 3, 2), date(2024, 3, 2)], pa.date32()),
        }
    )
    write_deltalake(tmp_path / "silver" / "trades", rows, partition_by=["date"])
    return str(tmp_path)


def test_table_names_resolve_by_themselves(lake: str) -> None:
    query = Query(lake, "select exchange, sum(price) as s from silver.trades group by 1 order by 1")
    assert [json.loads(line) for line in query.lines("json")] == [
        {"exchange": "bitmex", "s": 4.0},
        {"exchange": "deribit", "s": 3.5},
    ]


def test_partition_columns_can_be_used(lake: str) -> None:
    query = Query(lake, "select count(*) as n from silver.trades where date = date '2024-03-02'")
    assert list(query.lines("csv")) == ["n\n", "2\n"]


def test_declared_table_without_rows_is_empty(lake: str) -> None:
    query = Query(lake, "select count(*) as n, max(open) as m from gold.bars")
    assert list(query.lines("json")) == ['{"n":0,"m":null}\n']


def test_answer_goes_to_parquet(lake: str, tmp_path: Path) -> None:
    Query(lake, "select price from silver.trades order by 1").write_parquet(tmp_path / "a.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert table["price"].to_pylist() == [1.5, 2.5, 3.5]


def test_unknown_table_names_the_nearest(lake: str) -> None:
    with pytest.raises(QueryError, match=r"Unknown table 'silver.trade'.*'silver.trades'"):
        Query(lake, "select * from silver.trade")


def test_bad_sql_says_what_is_wrong(lake: str) -> None:
    with pytest.raises(QueryError, match="DuckDB rejected the query"):
        Query(lake, "select prise from silver.trades")


def test_folder_without_tables_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="There is no lake at"):
        Query(str(tmp_path / "nowhere"), "select * from silver.trades")


def test_tables_are_found_in_any_spelling() -> None:
    found = mentioned_tables('select * from Silver.Trades join "gold"."bars" using (symbol)')
    assert [table.name for table in found] == ["silver.trades", "gold.bars"]


def test_inventory_counts_rows_files_and_bytes(lake: str) -> None:
    (trades,) = list_tables(lake)
    assert (trades.name, trades.rows, trades.files, trades.version) == ("silver.trades", 3, 2, 0)
    assert trades.size_bytes > 0
    assert trades.changed_at > datetime(2024, 3, 1, tzinfo=UTC)
