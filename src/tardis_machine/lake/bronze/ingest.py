"""The job from a bus to Bronze: append every record exactly once, readable or not."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.settings import BusSettings
from tardis_machine.lake.bronze.checkpoints import BusNote, find_checkpoint
from tardis_machine.lake.bronze.rows import ENVELOPE, bronze_batch, bronze_events
from tardis_machine.lake.buses import bus_of
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.kafka.cluster import Cluster
from tardis_machine.lake.buses.kafka.reader import stream_kafka
from tardis_machine.lake.buses.rows import RowForm
from tardis_machine.lake.buses.source import stream_bus
from tardis_machine.lake.roots import is_local
from tardis_machine.lake.spark.schemas import spark_schema
from tardis_machine.lake.store.store import TABLE_PROPERTIES, Store
from tardis_machine.lake.tables.bronze import EVENTS

QUERY = "ingest"
PAGES = "pages"
"""Folder in a checkpoint for what was fetched and is not written yet."""
WRITER_PROPERTIES = {
    # Nearly unique values: Parquet would build a dictionary and then discard it.
    **{
        f"parquet.enable.dictionary#{name}": "false"
        for name in ("position", "event_ts", "local_ts", "ingest_ts", "bus_ts", ENVELOPE)
    },
}


def stream_bronze(
    spark: SparkSession, bus: BusSettings, policy: ReadPolicy, pages: str | None = None
) -> DataFrame:
    """Return the events of a bus as rows of `bronze.events`, starting at the oldest.

    Args:
        spark: The session.
        bus: How to reach the bus.
        policy: How to read it.
        pages: As in `bus_of`.
    """
    if isinstance(bus, KafkaSettings):
        return stream_kafka(spark, bus, policy).transform(bronze_events)
    return stream_bus(
        spark, bus_of(bus, pages), policy, RowForm(spark_schema(EVENTS), bronze_batch)
    )


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
    # Tasks on other machines have no folder of this one, and know no login of the lake's store.
    pages = f"{checkpoint}/{PAGES}" if is_local(store.root) else None
    events = stream_bronze(store.spark, bus, policy, pages)
    for name, value in WRITER_PROPERTIES.items():
        store.spark.conf.set(name, value)
    store.create(EVENTS)
    return (
        events.writeStream.format("delta")
        .queryName(query)
        .outputMode("append")
        .option("checkpointLocation", checkpoint)
        .option("path", store.path(EVENTS))
        .partitionBy(*EVENTS.partition_by)
        .options(**TABLE_PROPERTIES)
    )
