"""A bus as a Spark data source, batch and streaming.

Spark makes several copies of a reader: one plans offsets in a process of the driver for as long as
the query runs, others read ranges in tasks. Each connects by itself, when it first needs to.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tardis_machine.lake.buses.client import Bus, Loss, Planner, ReadPolicy
from tardis_machine.lake.buses.losses import report_loss
from tardis_machine.lake.buses.positions import Offset, Range, with_loss
from tardis_machine.lake.buses.rows import RECORDS, RowForm
from tardis_machine.lake.errors import BusUnavailableError

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

_T = TypeVar("_T")


def read_bus(
    spark: SparkSession, bus: Bus, policy: ReadPolicy, form: RowForm = RECORDS
) -> DataFrame:
    """Return all events in a bus now."""
    return spark.read.format(register(spark, bus, policy, form)).load()


def stream_bus(
    spark: SparkSession, bus: Bus, policy: ReadPolicy, form: RowForm = RECORDS
) -> DataFrame:
    """Return the events of a bus as a stream, from the oldest on."""
    return spark.readStream.format(register(spark, bus, policy, form)).load()


def register(spark: SparkSession, bus: Bus, policy: ReadPolicy, form: RowForm = RECORDS) -> str:
    """Make a bus known to Spark and return the format to name."""
    # Spark rejects a name that another session of the process has registered.
    format_ = f"tardis-machine-{bus.name}-{secrets.token_hex(4)}"
    # Pickled by value because it is made here; it only refers to classes that executors import.
    members: dict[str, Any] = {"bus": bus, "policy": policy, "form": form, "format": format_}
    members["__module__"] = __name__
    source: type[BusSource] = type(f"{type(bus).__name__}Source", (BusSource,), members)
    spark.dataSource.register(source)
    return source.name()


class BusSource(DataSource):
    """The data source that Spark registers; subclasses add the bus."""

    bus: ClassVar[Bus]
    policy: ClassVar[ReadPolicy]
    form: ClassVar[RowForm]
    format: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.format

    def schema(self) -> StructType:
        """Return the columns of the rows."""
        return self.form.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads all there is."""
        return BatchReader(self.bus, self.policy, self.form)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what reads batch by batch."""
        return StreamReader(self.bus, self.policy, self.form)


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class BatchReader(DataSourceReader):
    """Reads everything from the oldest event to the newest one."""

    def __init__(self, bus: Bus, policy: ReadPolicy, form: RowForm = RECORDS) -> None:
        self._bus = bus
        self._policy = policy
        self._form = form

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the whole bus as one batch."""
        return [RangePartition(each) for each in _retried(self._ranges, self._policy)]

    def _ranges(self) -> list[Range]:
        ranges: list[Range] = []
        with self._bus.planner(self._policy) as planner:
            planner.freeze()
            start = planner.begin()
            # A lane may only appear when another one is read to its end.
            while (end := planner.latest(start, None)) != start:
                ranges += planner.ranges(start, end)
                start = end
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range."""
        # Spark asks for one empty partition when there is none.
        if not isinstance(partition, RangePartition):
            return iter(())
        return _rows(self._bus, self._policy, self._form, partition.wanted)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is new, batch by batch."""

    def __init__(self, bus: Bus, policy: ReadPolicy, form: RowForm = RECORDS) -> None:
        self._bus = bus
        self._policy = policy
        self._form = form
        self._planner: Planner | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the positions before the oldest events."""
        return self._planned(lambda planner: planner.begin())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch."""
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._planned(lambda planner: planner.latest(start, max_rows))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the largest batch."""
        max_rows = self._policy.max_rows
        return ReadAllAvailable() if max_rows is None else ReadMaxRows(max_rows)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the newest positions, and how many events are gone."""
        return self._planned(lambda planner: with_loss(planner.newest(), planner.lost))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read nothing that comes after this call."""
        self._planned(lambda planner: planner.freeze())

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return what the tasks of a batch read."""
        ranges = self._planned(lambda planner: planner.ranges(start, end))
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range."""
        assert isinstance(partition, RangePartition)
        return _rows(self._bus, self._policy, self._form, partition.wanted)

    def commit(self, end: Offset) -> None:
        """Delete what was kept for a batch that is now written."""
        self._planned(lambda planner: planner.commit(end))

    def stop(self) -> None:
        """Close the connection."""
        if self._planner is not None:
            self._planner.close()

    def _planned(self, ask: Callable[[Planner], _T]) -> _T:
        """Ask the planner, whose connections live as long as the query."""
        if self._planner is None:
            self._planner = self._bus.planner(self._policy)
        planner = self._planner
        return _retried(lambda: ask(planner), self._policy)


def _rows(bus: Bus, policy: ReadPolicy, form: RowForm, wanted: Range) -> Iterator[pa.RecordBatch]:
    records = read_range(bus, policy, wanted)
    return records if form.reshape is None else form.reshape(records)


def read_range(bus: Bus, policy: ReadPolicy, wanted: Range) -> Iterator[pa.RecordBatch]:
    """Yield the events of a range; a lost connection is made again and read on from there."""
    rows, lost, rest = 0, 0, wanted
    pauses = Pauses(policy.retry_seconds)
    while True:
        try:
            with bus.connect() as client:
                for page in client.read(rest):
                    rows, lost = rows + page.batch.num_rows, lost + page.lost
                    yield page.batch
                    rest = replace(wanted, start=page.position, rows=None)
                    pauses.reset()
                lost = lost if wanted.rows is None else max(lost, wanted.rows - rows)
                lost = client.confirmed_loss(wanted, lost) if lost > 0 else 0
            break
        except BusUnavailableError as error:
            pauses.wait(error)
    if lost > 0:
        report_loss(policy, wanted.lane, Loss(lost))


class Pauses:
    """Waits before each new attempt, twice as long as before, until the time is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reset()

    def reset(self) -> None:
        """Reset, after a success."""
        self._deadline: float | None = None
        self._pause = FIRST_PAUSE_SECONDS

    def wait(self, error: Exception) -> None:
        """Wait, or raise the error when there is no time left."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._seconds
        if now + self._pause > self._deadline:
            raise error
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)


def _retried(call: Callable[[], _T], policy: ReadPolicy) -> _T:
    pauses = Pauses(policy.retry_seconds)
    while True:
        try:
            return call()
        except BusUnavailableError as error:
            pauses.wait(error)
