"""What every reader of a bus must do, written once.

A reader is done when its subclass of `BusReaderContract` passes against a real server::

    class TestRedis(BusReaderContract):
        @pytest.fixture
        def readable(self, redis_server, redis_stream) -> ReadableBus:
            return RedisUnderTest(redis_server, redis_stream)
"""

import json
import pickle
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.lake.buses.client import Bus, ReadPolicy
from tardis_machine.lake.buses.positions import LOST
from tardis_machine.lake.buses.source import StreamReader, read_bus, stream_bus
from tardis_machine.lake.errors import DataLossError
from tardis_machine.sinks.registry import make_sink
from tests.contract.sinks import make_events

POLICY = ReadPolicy(retry_seconds=30)
FORGIVING = ReadPolicy(fails_on_loss=False, retry_seconds=30)
AWAY_SECONDS = 0.3
MAX_STARTS = 30
SLOW_PYTHON = "to connect back"
"""What a busy machine may bring: Spark gives a Python process ten seconds, and has no setting."""


class ReadableBus(Protocol):
    """A real server with a destination of this test's own."""

    settings: BusSettings
    """Settings that publish to that destination."""
    bus: Bus
    """What reads from it, made of the same settings."""
    secrets: Sequence[str]
    """Texts that nobody may see."""
    has_nulls: bool
    """Whether an event can come without any envelope."""
    is_anew_after_trim: bool
    """Whether the server can only let go of events by making the stream anew."""
    keeps_planned: bool
    """Whether events that are planned for a batch outlive it."""
    has_times: bool
    """Whether the bus keeps when it took an event."""
    has_server: bool
    """Whether there is somebody who can be away."""

    def write(self, envelopes: Sequence[bytes | None]) -> None:
        """Store events in this order, spread over all lanes in turn."""

    def trim(self) -> None:
        """Let go of everything that was stored so far."""

    def take_down(self) -> None:
        """Make the server unreachable."""

    def bring_back(self) -> None:
        """Make the server reachable again, with what it had stored."""


def numbered(count: int, first: int = 0) -> list[bytes | None]:
    """Return envelopes that tell their place."""
    return [b"event-%d" % number for number in range(first, first + count)]


class MicroBatches:
    """Does what Spark does with a stream reader, without Spark."""

    def __init__(self, bus: Bus, policy: ReadPolicy, start: dict[str, Any] | None = None) -> None:
        self._bus = bus
        self._policy = policy
        self.offset = start
        self.sizes: list[int] = []
        self.lost = 0

    def run(self) -> list[dict[str, Any]]:
        """Read all that is available now and return the rows."""
        reader = StreamReader(self._bus, self._policy)
        try:
            return list(self._rows(reader))
        finally:
            reader.stop()

    def _rows(self, reader: StreamReader) -> Iterator[dict[str, Any]]:
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset() if self.offset is None else self.offset
        while True:
            end = as_logged(reader.latestOffset(start, self._limit(reader)))
            if end == start:
                self.offset = end
                self.lost = (reader.reportLatestOffset() or {}).get(LOST, {}).get("events", 0)
                return
            rows = rows_of(reader, reader.partitions(start, end))
            self.sizes.append(len(rows))
            yield from rows
            reader.commit(end)
            start = end

    def _limit(self, reader: StreamReader) -> ReadLimit:
        return reader.getDefaultReadLimit()


def as_logged(offset: dict[str, Any]) -> dict[str, Any]:
    """Return an offset as it comes back from a checkpoint."""
    logged: dict[str, Any] = json.loads(json.dumps(offset))
    return logged


def rows_of(reader: StreamReader, partitions: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rows of partitions as tasks read them, each by a copy of the reader."""

    def read(partition: Any) -> list[dict[str, Any]]:
        return [row for batch in reader.read(partition) for row in batch.to_pylist()]

    with ThreadPoolExecutor(2) as tasks:
        found = list(tasks.map(read, pickle.loads(pickle.dumps(partitions))))
    return [row for rows in found for row in rows]


def envelopes_by_lane(rows: Sequence[Any]) -> dict[tuple[str, str], list[bytes | None]]:
    """Return the envelopes of each lane in the order of the rows."""
    lanes: dict[tuple[str, str], list[bytes | None]] = {}
    for row in rows:
        value = row["envelope"]
        lanes.setdefault((row["stream"], row["partition"]), []).append(
            None if value is None else bytes(value)
        )
    return lanes


def all_envelopes(rows: Sequence[Any]) -> Counter[bytes | None]:
    """Return how often each envelope was read."""
    return Counter(value for lane in envelopes_by_lane(rows).values() for value in lane)


def is_in_order(found: Sequence[bytes | None], written: Sequence[bytes | None]) -> bool:
    """Say whether events came in the order in which they were written."""
    rest = iter(written)
    return all(any(value == each for each in rest) for value in found)


def is_slow_python(query: StreamingQuery) -> bool:
    """Say whether a query failed because its Python process took too long to start."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if SLOW_PYTHON not in str(error):
            raise
        return True
    return False


class Lake:
    """A table of Parquet files that a streaming query fills, and its checkpoint."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._path = root / "table"
        self.checkpoint = root / "checkpoint"
        self.batch_sizes: list[int] = []
        self._progress: list[Any] = []

    def fill(self, stream: DataFrame) -> None:
        """Write all that is available now."""
        writer = (
            stream.writeStream.format("parquet")
            .option("path", str(self._path))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
        )
        for _ in range(MAX_STARTS):
            query = writer.start()
            if not is_slow_python(query):
                break
        else:
            pytest.fail(f"Python was too slow to start in {MAX_STARTS} attempts")
        self._progress = query.recentProgress
        self.batch_sizes = [progress["numInputRows"] for progress in self._progress]

    def rows(self) -> list[Any]:
        """Return all rows."""
        return self._spark.read.parquet(str(self._path)).collect()

    def notes(self) -> Iterator[str]:
        """Yield what Spark shows and writes down about the last query."""
        yield str(self._progress)
        for path in self.checkpoint.rglob("*"):
            if path.is_file():
                yield path.read_text(errors="replace")

    def forget_last_batch(self, *, with_files: bool) -> None:
        """Leave things as a driver that is killed in its last batch does.

        Args:
            with_files: Killed before the files of the batch counted, not only before its commit.
        """
        last = max(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))
        _remove(self.checkpoint / "commits", last)
        if with_files:
            _remove(self._path / "_spark_metadata", last)


def _remove(log: Path, batch: int) -> None:
    (log / str(batch)).unlink()
    (log / f".{batch}.crc").unlink(missing_ok=True)


class BusReaderContract:
    """What every reader must do; a subclass only says how to build its bus (fixture `readable`)."""

    def test_batch_holds_what_was_written_in_order(
        self, readable: ReadableBus, spark: SparkSession
    ) -> None:
        written = [*numbered(40), b"", *numbered(60, first=40)]
        if readable.has_nulls:
            written.insert(70, None)
        readable.write(written)
        batch: Any = read_bus(spark, readable.bus, POLICY)
        rows = batch.collect()
        assert all_envelopes(rows) == Counter(written)
        for lane in envelopes_by_lane(rows).values():
            assert is_in_order(lane, written)
        places = {(row["bus"], row["stream"], row["partition"], row["position"]) for row in rows}
        assert len(places) == len(written)
        assert {row["bus"] for row in rows} == {readable.bus.name}
        assert all((row["bus_ts"] is not None) == readable.has_times for row in rows)
        shown = (
            str(batch._jdf.queryExecution()),
            repr(readable.settings),
            readable.bus.endpoint,
        )
        assert not any(secret in text for secret in readable.secrets for text in shown)

    def test_bus_without_events_gives_none(
        self, readable: ReadableBus, spark: SparkSession
    ) -> None:
        assert read_bus(spark, readable.bus, POLICY).collect() == []

    def test_stream_ends_and_goes_on_from_its_checkpoint(
        self, readable: ReadableBus, spark: SparkSession, tmp_path: Path
    ) -> None:
        lake = Lake(spark, tmp_path)
        policy = ReadPolicy(max_rows=60)
        readable.write(numbered(100))
        lake.fill(stream_bus(spark, readable.bus, policy))
        assert all_envelopes(lake.rows()) == Counter(numbered(100))
        assert max(lake.batch_sizes) <= 60
        readable.write(numbered(30, first=100))
        lake.fill(stream_bus(spark, readable.bus, policy))
        assert all_envelopes(lake.rows()) == Counter(numbered(130))
        assert sum(lake.batch_sizes) == 30
        assert not any(secret in text for secret in readable.secrets for text in lake.notes())

    def test_killed_query_repeats_and_loses_nothing(
        self, readable: ReadableBus, spark: SparkSession, tmp_path: Path
    ) -> None:
        lake = Lake(spark, tmp_path)
        policy = ReadPolicy(max_rows=50)
        readable.write(numbered(80))
        lake.fill(stream_bus(spark, readable.bus, policy))
        lake.forget_last_batch(with_files=True)
        readable.write(numbered(20, first=80))
        lake.fill(stream_bus(spark, readable.bus, policy))
        assert all_envelopes(lake.rows()) == Counter(numbered(100))

    def test_batches_keep_to_the_limit(self, readable: ReadableBus) -> None:
        readable.write(numbered(20))
        batches = MicroBatches(readable.bus, ReadPolicy(max_rows=7))
        assert all_envelopes(batches.run()) == Counter(numbered(20))
        assert max(batches.sizes) <= 7

    def test_range_gives_the_same_rows_again(self, readable: ReadableBus) -> None:
        readable.write(numbered(60))
        reader = StreamReader(readable.bus, ReadPolicy(rows_per_task=10))
        start = reader.initialOffset()
        end = as_logged(reader.latestOffset(start, ReadMaxRows(40)))
        first = rows_of(reader, reader.partitions(start, end))
        readable.write(numbered(60, first=60))
        reader.stop()
        # A driver that starts again knows nothing but the two offsets.
        again = StreamReader(pickle.loads(pickle.dumps(readable.bus)), POLICY)
        second = rows_of(again, again.partitions(start, end))
        again.stop()
        assert 0 < len(first) <= 40
        assert sorted(first, key=_place) == sorted(second, key=_place)

    def test_events_that_come_later_wait_for_the_next_run(self, readable: ReadableBus) -> None:
        readable.write(numbered(10))
        reader = StreamReader(readable.bus, POLICY)
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        readable.write(numbered(10, first=10))
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
        rows = rows_of(reader, reader.partitions(start, end))
        reader.stop()
        assert all_envelopes(rows) == Counter(numbered(10))

    def test_events_lost_before_planning_are_noticed(self, readable: ReadableBus) -> None:
        readable.write(numbered(20))
        before = MicroBatches(readable.bus, POLICY)
        before.run()
        readable.write(numbered(20, first=20))
        readable.trim()
        readable.write(numbered(20, first=40))
        with pytest.raises(DataLossError, match="--fail-on-data-loss false"):
            MicroBatches(readable.bus, POLICY, before.offset).run()
        after = MicroBatches(readable.bus, FORGIVING, before.offset)
        assert all_envelopes(after.run()) == Counter(numbered(20, first=40))
        assert after.lost > 0
        readable.write(numbered(5, first=60))
        rest = MicroBatches(readable.bus, POLICY, after.offset).run()
        assert all_envelopes(rest) == Counter(numbered(5, first=60))

    def test_events_lost_after_planning_are_noticed(self, readable: ReadableBus) -> None:
        readable.write(numbered(20))
        reader = StreamReader(readable.bus, POLICY)
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        partitions = reader.partitions(start, end)
        reader.stop()
        readable.trim()
        if readable.keeps_planned:
            assert all_envelopes(rows_of(reader, partitions)) == Counter(numbered(20))
            return
        with pytest.raises(DataLossError):
            rows_of(reader, partitions)
        assert rows_of(StreamReader(readable.bus, FORGIVING), partitions) == []

    def test_letting_go_of_what_was_read_loses_nothing(self, readable: ReadableBus) -> None:
        if readable.is_anew_after_trim:
            return
        readable.write(numbered(20))
        before = MicroBatches(readable.bus, POLICY)
        before.run()
        readable.trim()
        readable.write(numbered(20, first=20))
        after = MicroBatches(readable.bus, POLICY, before.offset).run()
        assert all_envelopes(after) == Counter(numbered(20, first=20))

    def test_server_that_comes_back_is_read_on(self, readable: ReadableBus) -> None:
        if not readable.has_server:
            return
        readable.write(numbered(10))
        reader = StreamReader(readable.bus, POLICY)
        start = reader.initialOffset()
        with away(readable):
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
        (*partitions,) = reader.partitions(start, end)
        with away(readable):
            rows = rows_of(reader, partitions)
        reader.stop()
        assert all_envelopes(rows) == Counter(numbered(10))

    def test_reads_what_the_sink_published(self, readable: ReadableBus) -> None:
        sink = make_sink(
            readable.settings, readable.settings.resolve(EventBusSettings(producer_id="tester"))
        )
        sink.open()
        events = make_events(readable.settings.router(), 50, symbols=("XBTUSD", "ETHUSD"))
        sink.send(events)
        sink.close(5)
        read = [row["envelope"] for row in MicroBatches(readable.bus, POLICY).run()]
        assert len(read) == len(events)
        # Kinesis has no headers: what they say is appended to the envelope.
        for event in events:
            assert any(envelope.startswith(event.data) for envelope in read)


class away:  # noqa: N801
    """Take a server down, and bring it back while the body is busy with it."""

    def __init__(self, readable: ReadableBus) -> None:
        self._readable = readable

    def __enter__(self) -> None:
        self._readable.take_down()
        self._timer = threading.Timer(AWAY_SECONDS, self._readable.bring_back)
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.join()


def _place(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["stream"], row["partition"], row["position"]
