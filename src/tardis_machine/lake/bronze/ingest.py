"""The job from a bus to Bronze: append every record exactly once, readable or not."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.settings import BusSettings
from tardis_machine.lake.bronze.checkpoints import BusNote, find_checkpoint
from tardis_machine.lake.bronze.commits import Commits
from tardis_machine.lake.bronze.files import file_form
from tardis_machine.lake.bronze.rows import ROWS, UNIQUE
from tardis_machine.lake.buses import bus_of
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.kafka.cluster import Cluster
from tardis_machine.lake.buses.kafka.reader import stream_kafka
from tardis_machine.lake.buses.rows import RowForm
from tardis_machine.lake.buses.source import stream_bus
from tardis_machine.lake.progress import WRITTEN
from tardis_machine.lake.roots import is_local
from tardis_machine.lake.store.store import TABLE_PROPERTIES, Store
from tardis_machine.lake.tables.bronze import EVENTS

QUERY = "ingest"
PAGES = "pages"
"""Folder in a checkpoint for what was fetched and is not written yet."""


def stream_bronze(
    spark: SparkSession,
    bus: BusSettings,
    policy: ReadPolicy,
    form: RowForm = ROWS,
    pages: str | None = None,
) -> DataFrame:
    """Return the events of a bus as rows of `bronze.events` or another form, from the oldest on.

    Args:
        spark: The session.
        bus: How to reach the bus.
        policy: How to read it.
        form: What tasks make of the records.
        pages: As in `bus_of`.
    """
    if isinstance(bus, KafkaSettings):
        records = stream_kafka(spark, bus, policy)
        return records if form.reshape is None else records.mapInArrow(form.reshape, form.schema)
    return stream_bus(spark, bus_of(bus, pages), policy, form)


def identify(spark: SparkSession, bus: BusSettings) -> BusNote:
    """Return what tells a bus from others of its kind."""
    if isinstance(bus, KafkaSettings):
        return BusNote(*Cluster(spark, bus).ids())
    # The positions of the other buses name their streams themselves.
    return BusNote(bus_of(bus).endpoint)


def ingest_writer(store: Store, bus: BusSettings, policy: ReadPolicy) -> DataStreamWriter:
    """Return the streaming query that appends events; the caller sets its trigger and starts it.

    Each bus has its own query, and so its own checkpoint.
    """
    query = f"{QUERY}-{bus.bus}"
    note = identify(store.spark, bus)
    checkpoint = find_checkpoint(store, query, note, fails_on_loss=policy.fails_on_loss)
    store.create(EVENTS)
    if not is_local(store.root):
        # Tasks on other machines know no login of the lake's store.
        return _spark_writer(store, stream_bronze(store.spark, bus, policy), query, checkpoint)
    path, pages = store.path(EVENTS), f"{checkpoint}/{PAGES}"
    files = stream_bronze(store.spark, bus, policy, file_form(path), pages)
    commits = Commits(path, checkpoint)

    def commit(batch: DataFrame, number: int) -> None:
        if not commits.has(number):
            commits.add(batch.toArrow().to_pylist(), number)

    counted = files.observe(WRITTEN, F.sum("rows").alias(WRITTEN))
    writer = counted.writeStream.queryName(query).option("checkpointLocation", checkpoint)
    return writer.foreachBatch(commit)


def _spark_writer(store: Store, events: DataFrame, query: str, checkpoint: str) -> DataStreamWriter:
    for name in UNIQUE:
        store.spark.conf.set(f"parquet.enable.dictionary#{name}", "false")
    return (
        events.writeStream.format("delta")
        .queryName(query)
        .outputMode("append")
        .option("checkpointLocation", checkpoint)
        .option("path", store.path(EVENTS))
        .partitionBy(*EVENTS.partition_by)
        .options(**TABLE_PROPERTIES)
    )
