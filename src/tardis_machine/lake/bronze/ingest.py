"""The job from a bus to Bronze: append every record exactly once, readable or not."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.settings import BusSettings
from tardis_machine.lake.bronze.rows import ENVELOPE, bronze_batch, bronze_events
from tardis_machine.lake.buses import bus_of
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.kafka.reader import stream_kafka
from tardis_machine.lake.buses.rows import RowForm
from tardis_machine.lake.buses.source import stream_bus
from tardis_machine.lake.spark.schemas import spark_schema
from tardis_machine.lake.store.store import TABLE_PROPERTIES, Store
from tardis_machine.lake.tables.bronze import EVENTS

QUERY = "ingest"
WRITER_PROPERTIES = {
    # Bronze is filtered by no other column, and statistics cost as much as writing.
    "spark.databricks.delta.properties.defaults.dataSkippingStatsColumns": "local_ts",
    # Nearly unique values: Parquet would build a dictionary and then discard it.
    **{
        f"parquet.enable.dictionary#{name}": "false"
        for name in ("position", "event_ts", "local_ts", "ingest_ts", "bus_ts", ENVELOPE)
    },
}


def stream_bronze(spark: SparkSession, bus: BusSettings, policy: ReadPolicy) -> DataFrame:
    """Return the events of a bus as rows of `bronze.events`, starting at the oldest."""
    if isinstance(bus, KafkaSettings):
        return stream_kafka(spark, bus, policy).transform(bronze_events)
    return stream_bus(spark, bus_of(bus), policy, RowForm(spark_schema(EVENTS), bronze_batch))


def ingest_writer(events: DataFrame, store: Store, bus: str) -> DataStreamWriter:
    """Return the streaming query that appends events; the caller sets its trigger and starts it.

    Each bus has its own query, and so its own checkpoint.
    """
    query = f"{QUERY}-{bus}"
    for name, value in WRITER_PROPERTIES.items():
        store.spark.conf.set(name, value)
    store.create(EVENTS)
    return (
        events.writeStream.format("delta")
        .queryName(query)
        .outputMode("append")
        .option("checkpointLocation", store.checkpoint(query))
        .option("path", store.path(EVENTS))
        .partitionBy(*EVENTS.partition_by)
        .options(**TABLE_PROPERTIES)
    )
