"""Records of a bus to rows of `bronze.events`."""

from collections.abc import Iterator

import pyarrow as pa

from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.bronze.headers import bronze_columns
from tardis_machine.lake.buses.rows import RowForm
from tardis_machine.lake.spark.schemas import spark_schema
from tardis_machine.lake.tables.bronze import BUS_COLUMNS, EVENTS

ENVELOPE = "envelope"
UNIQUE = ("position", "event_ts", "local_ts", "ingest_ts", "bus_ts", ENVELOPE)
"""Columns of nearly unique values: Parquet would build a dictionary and then discard it."""
_BUS_NAMES = tuple(column.name for column in BUS_COLUMNS)


def bronze_batch(records: pa.RecordBatch) -> pa.RecordBatch:
    """Turn records of a bus (its columns and `envelope`) into rows of `bronze.events`."""
    schema = arrow_schema(EVENTS)
    bus_times = records.column("bus_ts").cast(schema.field("bus_ts").type)
    decoded = bronze_columns(records.column(ENVELOPE), bus_times)
    passed = {name: records.column(name) for name in (*_BUS_NAMES, ENVELOPE)}
    columns = {**decoded, **passed}
    arrays = [columns[name].cast(schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def bronze_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn batches of records into rows of `bronze.events`."""
    return map(bronze_batch, batches)


ROWS = RowForm(spark_schema(EVENTS), bronze_batches)
"""Rows of `bronze.events`."""
