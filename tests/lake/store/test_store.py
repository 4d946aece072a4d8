"""Tables on disk: those of other versions, writes that come twice, and what their log tells."""

import math
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.errors import TableVersionError
from tardis_machine.lake.store.changes import CHANGE, changed_rows
from tardis_machine.lake.store.few_changes import changed_few
from tardis_machine.lake.store.log_stats import files_with, known_times
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.store.times import Times
from tardis_machine.lake.tables import TABLES
from tardis_machine.lake.tables.gold import LIQUIDATIONS_1M
from tardis_machine.lake.tables.silver import TRADES
from tests.lake.events import NOON_US, SECOND_US
from tests.lake.frames import at, event, frame, values

pytestmark = pytest.mark.spark

DAY = date(2024, 3, 1)


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Store:
    return Store(spark, str(tmp_path))


def trades(*times: float, **columns: Any) -> list[dict[str, Any]]:
    day = {"date": DAY, "price": 1.0}
    return [event(each, **(day | columns)) for each in times]


def written(store: Store, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    """Write a table as another version would."""
    table = pa.Table.from_pylist(rows, schema=schema)
    write_deltalake(store.path(TRADES), table, partition_by=["date"])


def test_table_of_other_types_is_refused_by_name(store: Store) -> None:
    schema = arrow_schema(TRADES)
    place = schema.get_field_index("price")
    written(store, trades(1, price="1.0"), schema.set(place, pa.field("price", pa.string())))
    with pytest.raises(TableVersionError) as caught:
        store.read(TRADES)
    for part in ("silver.trades", "price", "string", "double", store.root, "another version"):
        assert part in str(caught.value)


def test_table_of_an_older_version_gets_its_new_columns(store: Store) -> None:
    schema = arrow_schema(TRADES)
    written(store, trades(1), schema.remove(schema.get_field_index("time_digits")))
    store.append(frame(store.spark, TRADES, trades(2, time_digits=3)), TRADES)
    assert values(store.read(TRADES), "event_ts", "time_digits") == [(1.0, None), (2.0, 3)]
    first, last = NOON_US, NOON_US + 9 * SECOND_US
    near = store.read_times(TRADES, "event_ts", [Times(first, last)])
    assert values(near, "event_ts", "time_digits") == [(1.0, None), (2.0, 3)]


def test_table_of_a_newer_version_keeps_its_columns(store: Store) -> None:
    schema = arrow_schema(TRADES).append(pa.field("new", pa.string()))
    written(store, trades(1, new="x"), schema)
    store.append(frame(store.spark, TRADES, trades(2)), TRADES)
    assert store.read(TRADES).columns == list(TRADES.column_names)
    kept = pa.table(DeltaTable(store.path(TRADES)).to_pyarrow_table(columns=["new"]))
    assert sorted(kept["new"].to_pylist(), key=str) == [None, "x"]


def test_statistics_are_kept_of_what_files_are_skipped_by(store: Store) -> None:
    store.append(frame(store.spark, TRADES, trades(1)), TRADES)
    files = pa.table(DeltaTable(store.path(TRADES)).get_add_actions(flatten=True))
    lowest = {name for name in files.column_names if name.startswith("min.")}
    assert lowest == {"min.exchange", "min.symbol", "min.local_ts", "min.event_ts"}
    assert files["num_records"].to_pylist() == [1]


def test_existing_tables_are_registered_in_a_catalog(store: Store) -> None:
    store.append(frame(store.spark, TRADES, trades(1)), TRADES)
    again = Store(store.spark, store.root, "spark_catalog")
    try:
        again.register(TABLES.values())
        assert again.spark.table("spark_catalog.silver.trades").count() == 1
    finally:
        again.spark.sql("DROP SCHEMA IF EXISTS spark_catalog.silver CASCADE")


def test_log_tells_where_rows_may_be(tmp_path: Path) -> None:
    path = str(tmp_path / "trades")
    schema = arrow_schema(TRADES)
    for first in (10, 20, 40):
        rows = pa.Table.from_pylist(trades(first, first + 5), schema=schema)
        write_deltalake(path, rows, partition_by=["date"], mode="append")

    def between(first: float, last: float) -> Times:
        return Times(NOON_US + int(first * SECOND_US), NOON_US + int(last * SECOND_US))

    assert known_times(path, "event_ts", [between(0, 9)]) == []
    first, last = between(0, 12), between(22, 60)
    assert known_times(path, "event_ts", [first]) == [between(10, 12)]
    assert known_times(path, "event_ts", [between(26, 39)]) == []
    early, late = known_times(path, "event_ts", [first, between(26, 39), last])
    # The end is cut to milliseconds in the log, and so a little later here.
    assert early == between(10, 12)
    assert between(22, 45) <= late <= between(22, 45.001)
    assert len(files_with(path, "event_ts", [between(0, 12), between(41, 42)])) == 2
    assert files_with(path, "event_ts", [between(30, 35)]) == []


def test_rows_tell_where_they_are_in_a_store_of_objects(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(spark, tmp_path.as_uri())
    store.append(frame(store.spark, TRADES, trades(10, 12, 40, 86_400)), TRADES)

    def between(first: float, last: float) -> Times:
        return Times(NOON_US + int(first * SECOND_US), NOON_US + int(last * SECOND_US))

    wanted = [between(0, 11), between(20, 30), between(35, 90_000)]
    expected = [between(10, 10), between(40, 86_400)]
    assert store.known_times(TRADES, "event_ts", wanted) == expected
    assert store.known_times(TRADES, "event_ts", [between(13, 39)]) == []


def test_changes_are_what_differs(spark: SparkSession) -> None:
    def minute(number: int, **columns: Any) -> dict[str, Any]:
        start = at(60 * number)
        key = {"date": DAY, "exchange": "bitmex", "symbol": "XBTUSD", "minute": start}
        return key | {"buys": 1, "buy_volume": 0.3} | columns

    strange = [minute(6, buy_volume=math.nan), minute(7, buy_volume=math.inf)]
    old = [minute(0), minute(1), minute(2), minute(3), minute(5, sell_volume=1.0), *strange]
    new = [
        *strange,
        minute(0),
        minute(1, buys=2),
        minute(2, buy_volume=0.1 + 0.2),
        minute(4),
        minute(5, sell_volume=None),
    ]
    both = [frame(spark, LIQUIDATIONS_1M, rows) for rows in (new, old)]
    changes = changed_rows(*both, LIQUIDATIONS_1M, deletes=True)
    expected = [(180.0, "delete"), (240.0, "insert"), (300.0, "update"), (60.0, "update")]
    assert values(changes, "minute", CHANGE) == expected
    kept = changed_rows(*both, LIQUIDATIONS_1M, deletes=False)
    assert values(kept, "minute", CHANGE) == expected[1:]
    for deletes, by_spark in ((True, changes), (False, kept)):
        few = changed_few(*(rows.toArrow() for rows in both), LIQUIDATIONS_1M, deletes=deletes)
        names = (*LIQUIDATIONS_1M.column_names, CHANGE)
        assert values(spark.createDataFrame(few), *names) == values(by_spark, *names)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("is_folder", [False, True])
def test_replacing_applies_inserts_updates_and_deletes(
    spark: SparkSession, tmp_path: Path, few: bool, is_folder: bool
) -> None:
    store = Store(spark, str(tmp_path) if is_folder else tmp_path.as_uri())

    def rows(**buys: int) -> list[dict[str, Any]]:
        key = {"date": DAY, "exchange": "bitmex", "minute": at(0)}
        return [key | {"symbol": symbol, "buys": count} for symbol, count in buys.items()]

    store.append(frame(store.spark, LIQUIDATIONS_1M, rows(a=1, b=1, c=1)), LIQUIDATIONS_1M)
    wanted = frame(store.spark, LIQUIDATIONS_1M, rows(b=2, c=1, d=4))
    if few:
        both = (wanted.toArrow(), store.collect(LIQUIDATIONS_1M))
        counts = store.replace_arrow(
            changed_few(*both, LIQUIDATIONS_1M, deletes=True), LIQUIDATIONS_1M
        )
    else:
        both = (wanted, store.read(LIQUIDATIONS_1M))
        counts = store.replace(changed_rows(*both, LIQUIDATIONS_1M, deletes=True), LIQUIDATIONS_1M)
    assert counts == {"delete": 1, "insert": 1, "update": 1}
    assert values(store.read(LIQUIDATIONS_1M), "symbol", "buys") == [("b", 2), ("c", 1), ("d", 4)]
