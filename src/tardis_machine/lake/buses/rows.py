"""Rows that every reader delivers: where an event was on the bus, and its envelope."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.types import StructType

from tardis_machine.lake.arrow import Values, arrow_field
from tardis_machine.lake.buses.positions import Lane
from tardis_machine.lake.spark.schemas import spark_field
from tardis_machine.lake.tables.bronze import BUS_COLUMNS, EVENTS

COLUMNS = (*BUS_COLUMNS, EVENTS.columns[EVENTS.column_names.index("envelope")])
ARROW_SCHEMA = pa.schema([arrow_field(column) for column in COLUMNS])
SPARK_SCHEMA = StructType([spark_field(column) for column in COLUMNS])

Reshape: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class RowForm:
    """What becomes of records before they leave the task that reads them.

    What a task does itself costs no way through the JVM to another Python process and back.
    """

    schema: StructType
    reshape: Reshape | None = None
    """Makes rows of the schema, in a task; of a module that executors have. None: as read."""


RECORDS = RowForm(SPARK_SCHEMA)
"""Records as stored by a bus."""

_TIME = ARROW_SCHEMA.field("bus_ts").type


def make_rows(
    bus: str,
    lane: Lane,
    positions: Values,
    times: Values,
    envelopes: Values,
) -> pa.RecordBatch:
    """Return events of one lane as a batch.

    Args:
        bus: Name of the bus.
        lane: Where the events were read.
        positions: Place of each event in the lane, as text or numbers.
        times: When the bus stored each event, as Arrow timestamps of any unit.
        envelopes: The bytes of each event; null where it has none.
    """
    count = len(envelopes)
    columns = [
        *(pa.repeat(pa.scalar(text), count) for text in (bus, lane.stream, lane.partition)),
        positions.cast(pa.string()),
        times.cast(_TIME, safe=False),
        envelopes,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
