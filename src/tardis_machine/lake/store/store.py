"""Delta tables on disk: read, append, insert new rows, replace changed rows.

All tables are below one root, and a table is created with its first rows. Everything here is SQL or
the DataFrame API, so that it runs the same in a local session and on a cluster.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from tardis_machine.lake.arrow import Values, arrow_schema
from tardis_machine.lake.errors import TableVersionError
from tardis_machine.lake.roots import absolute_root, is_local
from tardis_machine.lake.spark.schemas import spark_schema
from tardis_machine.lake.store.changes import CHANGE, DELETE, INSERT
from tardis_machine.lake.store.few_rows import append_few, counts_of, insert_few, replace_few
from tardis_machine.lake.store.log_stats import files_with, known_times
from tardis_machine.lake.store.logs import create_empty, may_start_at_first
from tardis_machine.lake.store.times import Times, in_spans
from tardis_machine.lake.tables import Table

_MISSING_TABLE = {"PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST"}
TABLE_PROPERTIES = {
    "delta.enableDeletionVectors": "false",
    "delta.columnMapping.mode": "none",
}


class Store:
    """All tables below one root, for one query with its own Spark session."""

    def __init__(self, spark: SparkSession, root: str, catalog: str | None = None) -> None:
        self.spark = spark.newSession()
        self.root = absolute_root(root)
        self._catalog = catalog
        self._checked: set[str] = set()
        self._registered: set[str] = set()

    def path(self, table: Table) -> str:
        """Return the path of a table."""
        return f"{self.root}/{table.path}"

    def checkpoint(self, query: str) -> str:
        """Return the checkpoint location of a streaming query."""
        return f"{self.root}/_checkpoints/{query}"

    def exists(self, table: Table) -> bool:
        """Say whether a table exists; raise TableVersionError for one of another version."""
        if table.name in self._checked:
            return True
        if is_local(self.root) and not Path(self.path(table)).is_dir():
            return False
        try:
            self._evolve(table, self._schema(table))
        except TableNotFoundError:
            return False
        except AnalysisException as exc:
            if exc.getCondition() in _MISSING_TABLE:
                return False
            raise
        self._checked.add(table.name)
        self._register(table)
        return True

    def _schema(self, table: Table) -> StructType:
        """Return the columns that a table has on disk."""
        if is_local(self.root):
            # Spark would start a job for it.
            found = json.loads(DeltaTable(self.path(table)).schema().to_json())
            return StructType.fromJson(found)
        return self.spark.read.format("delta").load(self.path(table)).schema

    def register(self, tables: Iterable[Table]) -> None:
        """Make the tables that exist known to the catalog, if there is one."""
        if self._catalog is not None:
            for table in tables:
                self.exists(table)

    def create(self, table: Table) -> None:
        """Create an empty table unless it exists; for tables that are read as a stream."""
        if self.exists(table):
            return
        if is_local(self.root):
            create_empty(self.path(table), table, properties(table))
            self._register(table)
        else:
            self.append(self._no_rows(table), table)

    def _no_rows(self, table: Table) -> DataFrame:
        # From an empty list Spark would start Python processes to serialize nothing.
        return self.spark.createDataFrame(arrow_schema(table).empty_table())

    def read(self, table: Table) -> DataFrame:
        """Return all rows of a table; none when it does not exist yet."""
        if not self.exists(table):
            return self._no_rows(table)
        return self.spark.read.format("delta").load(self.path(table)).select(*table.column_names)

    def collect(self, table: Table) -> Values:
        """Return all rows of a small table as an Arrow table."""
        if not self.exists(table):
            return arrow_schema(table).empty_table()
        if is_local(self.root):
            found = DeltaTable(self.path(table)).to_pyarrow_table(columns=list(table.column_names))
            return found.cast(arrow_schema(table))
        return self.read(table).toArrow()

    def stream(self, table: Table, query: str, max_batch_bytes: int) -> DataFrame:
        """Return the rows that are appended to a table, as a stream; others may be deleted.

        Args:
            table: The table; it is created unless it exists.
            query: Name of the query that reads it.
            max_batch_bytes: Bytes per batch.
        """
        self.create(table)
        reader = self.spark.readStream.format("delta").option("skipChangeCommits", "true")
        if is_local(self.root) and may_start_at_first(self.path(table), self.checkpoint(query)):
            # Otherwise a new stream begins with a snapshot, which takes Spark eight jobs to sort.
            reader = reader.option("startingVersion", 0)
        return reader.option("maxBytesPerTrigger", max_batch_bytes).load(self.path(table))

    def read_times(self, table: Table, column: str, wanted: Sequence[Times]) -> DataFrame:
        """Return the rows of a table, as `t`, whose time is in any of the wanted spans."""
        is_wanted = in_spans(column, wanted)
        if not is_local(self.root) or not self.exists(table):
            return self.read(table).alias("t").where(is_wanted)
        # Delta would plan this read with an extra Spark job, which costs more than most batches.
        files = files_with(self.path(table), column, wanted)
        return self.read_files(table, files).alias("t").where(is_wanted)

    def read_files(self, table: Table, files: Iterable[str]) -> DataFrame:
        """Return the rows of some files of a table."""
        paths = list(files)
        if not paths:
            return self._no_rows(table)
        reader = self.spark.read.schema(spark_schema(table))
        found = reader.option("basePath", self.path(table)).parquet(*paths)
        return found.select(*table.column_names)

    def append(self, rows: DataFrame, table: Table, *, few: bool = False) -> None:
        """Append rows; `few`: they are at most some ten thousand, and the driver may hold them."""
        if few and is_local(self.root):
            self.append_arrow(rows.toArrow(), table)
            return
        writer = rows.to(spark_schema(table)).write.format("delta").mode("append")
        if not self.exists(table):
            writer = writer.options(**properties(table)).partitionBy(*table.partition_by)
        writer.save(self.path(table))
        self._register(table)

    def append_arrow(self, rows: Values, table: Table) -> None:
        """Append rows that the driver holds."""
        if not is_local(self.root):
            self.append(self.spark.createDataFrame(rows), table)
        elif len(rows):
            self.create(table)
            append_few(self.path(table), table, rows)

    def insert_new(self, rows: DataFrame, table: Table, *bounds: str, few: bool = False) -> None:
        """Insert the rows whose key is not in the table.

        Args:
            rows: Rows with distinct keys.
            table: Where they go.
            bounds: Conditions on the table (`t`) that every row with an equal key meets. Literal
                bounds let Delta skip other files, so that the cost depends on the rows, not on
                the size of the table.
            few: As in `append`.
        """
        if not self.exists(table):
            self.append(rows, table, few=few)
        elif few and is_local(self.root):
            insert_few(self.path(table), table, rows.toArrow(), _conditions(table, bounds))
        else:
            self._merge(rows, table, bounds, f"WHEN NOT MATCHED THEN {_insert(table)}")

    def replace(self, changes: DataFrame, table: Table, *bounds: str) -> dict[str, int]:
        """Apply changes from `changed_rows`, and return how many rows of each change there are.

        The cost depends on the number of changes.

        Args:
            changes: Rows, each with its `change`.
            table: Where they go.
            bounds: As in `insert_new`.
        """
        counts = {row[CHANGE]: row["count"] for row in changes.groupBy(CHANGE).count().collect()}
        if counts.keys() <= {INSERT}:
            if counts:
                self.append(changes.drop(CHANGE), table)
            return counts
        values = [name for name in table.column_names if name not in table.key]
        updates = ", ".join(f"{name} = s.{name}" for name in values)
        self._merge(
            changes,
            table,
            bounds,
            f"WHEN MATCHED AND s.{CHANGE} = '{DELETE}' THEN DELETE",
            f"WHEN MATCHED THEN UPDATE SET {updates}",
            f"WHEN NOT MATCHED THEN {_insert(table)}",
        )
        return counts

    def replace_arrow(self, changes: Values, table: Table, *bounds: str) -> dict[str, int]:
        """Apply changes from `changed_few`, as `replace` does."""
        if not is_local(self.root):
            return self.replace(self.spark.createDataFrame(changes), table, *bounds)
        counts = counts_of(changes)
        if counts.keys() <= {INSERT}:
            self.append_arrow(changes, table)
        else:
            replace_few(self.path(table), table, changes, _conditions(table, bounds))
        return counts

    def known_times(
        self, table: Table, column: str, wanted: Sequence[Times], **partitions: Sequence[str]
    ) -> list[Times]:
        """Return the parts of spans in which a table may have rows."""
        if not self.exists(table):
            return []
        if is_local(self.root):
            return known_times(self.path(table), column, wanted, **partitions)
        rows = self.read_times(table, column, wanted)
        for name, values in partitions.items():
            rows = rows.where(F.col(name).isin(*values))
        numbers = (
            F.when(F.expr(in_spans(column, [span])), number) for number, span in enumerate(wanted)
        )
        time_us = F.unix_micros(column)
        groups = rows.groupBy(F.coalesce(*numbers)).agg(F.min(time_us), F.max(time_us))
        return sorted(Times(low, high) for _, low, high in groups.collect())

    def _merge(self, rows: DataFrame, table: Table, bounds: Iterable[str], *clauses: str) -> None:
        condition = " AND ".join(_conditions(table, bounds))
        self.spark.sql(
            f"MERGE INTO delta.`{self.path(table)}` t USING {{rows}} s ON {condition} "
            + " ".join(clauses),
            rows=rows,
        )

    def _evolve(self, table: Table, found: StructType) -> None:
        """Add the columns that a table lacks; raise TableVersionError for other types."""
        types = {field.name: field.dataType for field in found}
        wanted = spark_schema(table)
        for field in wanted:
            if field.name in types and types[field.name] != field.dataType:
                raise TableVersionError(
                    f"{table.name} in {self.root} has {field.name} as "
                    f"{types[field.name].simpleString()}, this version writes "
                    f"{field.dataType.simpleString()}: another version wrote it. Use that version, "
                    "or build a new lake with another --lake root."
                )
        missing = [field for field in wanted if field.name not in types]
        if missing:
            added = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in missing)
            self.spark.sql(f"ALTER TABLE delta.`{self.path(table)}` ADD COLUMNS ({added})")

    def _register(self, table: Table) -> None:
        """Make a table known to the catalog, once; one that it knows stays as it is."""
        if self._catalog is None or table.name in self._registered:
            return
        self._registered.add(table.name)
        self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {self._catalog}.{table.layer}")
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self._catalog}.{table.name} USING delta "
            f"LOCATION '{self.path(table)}'"
        )


def properties(table: Table) -> dict[str, str]:
    """Return the Delta properties that a table is created with."""
    if not table.stats_by:
        return TABLE_PROPERTIES
    # Statistics of columns that no query filters by cost a quarter of a write.
    return TABLE_PROPERTIES | {"delta.dataSkippingStatsColumns": ",".join(table.stats_by)}


def _conditions(table: Table, bounds: Iterable[str]) -> list[str]:
    """Return the conditions of a merge: the bounds, and equal keys."""
    needed = {column.name for column in table.columns if column.is_required}
    same = {True: "=", False: "IS NOT DISTINCT FROM"}
    return [*bounds, *(f"t.{name} {same[name in needed]} s.{name}" for name in table.key)]


def _insert(table: Table) -> str:
    columns = ", ".join(table.column_names)
    values = ", ".join(f"s.{name}" for name in table.column_names)
    return f"INSERT ({columns}) VALUES ({values})"  # noqa: S608
