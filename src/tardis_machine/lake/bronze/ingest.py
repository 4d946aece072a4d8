"""Bus to Bronze: append every record, exactly once, readable or not."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.bronze.decode import bronze_columns
from tardis_machine.lake.buses import bus_of
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.kafka import stream_kafka
from tardis_machine.lake.buses.rows import RowForm
from tardis_machine.lake.buses.source import stream_bus
from tardis_machine.lake.spark.schemas import arrow_schema, spark_schema
from tardis_machine.lake.store.store import TABLE_PROPERTIES, Store
from tardis_machine.lake.tables.bronze import BUS_COLUMNS, EVENTS
from tardis_machine.sinks.kafka.settings import KafkaSettings
from tardis_machine.sinks.settings import BusSettings

QUERY = "ingest"
VALUE = "envelope"
WRITER_PROPERTIES = {
    # Nobody looks for events in Bronze by other columns, and statistics cost as much as writing.
    "spark.databricks.delta.properties.defaults.dataSkippingStatsColumns": "local_ts",
    # Values that hardly repeat: a dictionary would be filled and then thrown away.
    **{
        f"parquet.enable.dictionary#{name}": "false"
        for name in ("position", "event_ts", "local_ts", "ingest_ts", "bus_ts", VALUE)
    },
}


def bronze_batch(records: pa.RecordBatch) -> pa.RecordBatch:
    """Turn records of a bus (its columns and `envelope`) into rows of `bronze.events`."""
    schema = arrow_schema(EVENTS)
    bus_times = records.column("bus_ts").cast(schema.field("bus_ts").type)
    decoded = bronze_columns(records.column(VALUE), bus_times)
    passed = {name: records.column(name) for name in (*_BUS_NAMES, VALUE)}
    columns = {**decoded, **passed}
    arrays = [columns[name].cast(schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_BUS_NAMES = tuple(column.name for column in BUS_COLUMNS)


def _bronze_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return map(bronze_batch, batches)


def bronze_events(records: DataFrame) -> DataFrame:
    """Return rows of `bronze.events` for records of a bus."""
    return records.mapInArrow(_bronze_batches, spark_schema(EVENTS))


def stream_bronze(spark: SparkSession, bus: BusSettings, policy: ReadPolicy) -> DataFrame:
    """Return the events of a bus as rows of `bronze.events`, from the oldest on."""
    if isinstance(bus, KafkaSettings):
        return stream_kafka(spark, bus, policy).transform(bronze_events)
    return stream_bus(spark, bus_of(bus), policy, RowForm(spark_schema(EVENTS), bronze_batch))


def ingest_writer(events: DataFrame, store: Store, bus: str) -> DataStreamWriter:
    """Return the streaming query that appends events; the caller sets its trigger and starts it.

    Each bus has a query, and so a checkpoint, of its own.
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
