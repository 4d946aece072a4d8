"""Files that tasks write, and their commits."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.series import Origin
from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.bronze.commits import Commits
from tardis_machine.lake.bronze.files import write_files
from tardis_machine.lake.bronze.rows import bronze_batch
from tardis_machine.lake.buses.positions import Lane
from tardis_machine.lake.buses.rows import make_rows
from tardis_machine.lake.errors import LakeError
from tardis_machine.lake.store.log_stats import known_times
from tardis_machine.lake.store.logs import create_empty
from tardis_machine.lake.store.store import properties
from tardis_machine.lake.store.times import Times
from tardis_machine.lake.tables.bronze import EVENTS
from tests.lake.events import NOON_US, liquidation, trade

DAY_SECONDS = 86_400


def records(*times: float) -> pa.RecordBatch:
    """Return a trade and a liquidation of each time, and something that is no event."""
    made = [make(at) for at in times for make in (trade, liquidation)]
    envelopes = [*(each.data for each in Encoder("p", Origin.REPLAY).encode(made, NOON_US)), b"?"]
    count = len(envelopes)
    positions = pa.array(range(count))
    bus_times = pa.array([NOON_US] * count).cast(pa.timestamp("us", "UTC"))
    return make_rows("files", Lane("events"), positions, bus_times, pa.array(envelopes))


def written(path: Path, *batches: pa.RecordBatch) -> list[dict[str, object]]:
    return [row for batch in write_files(str(path), iter(batches)) for row in batch.to_pylist()]


@contextmanager
def full_disk() -> Iterator[None]:
    """Let this process write nothing to files, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Query:
    """A table, and the checkpoint of a query that fills it."""

    def __init__(self, folder: Path) -> None:
        self.path, self.checkpoint = folder / "a table", folder / "checkpoint"
        create_empty(str(self.path), EVENTS, properties(EVENTS))
        (self.checkpoint / "offsets").mkdir(parents=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": "query"}))
        self.commits = Commits(str(self.path), str(self.checkpoint))

    def plan(self, batch: int, end: int) -> None:
        text = f'v1\n{{"batchTimestampMs":{end}}}\n{{"end":{end}}}'
        (self.checkpoint / "offsets" / str(batch)).write_text(text)

    def run(self, batch: int) -> None:
        if not self.commits.has(batch):
            self.commits.add(written(self.path, records(0)), batch)

    def rows(self) -> int:
        return len(self.table())

    def table(self) -> pa.Table:
        return DeltaTable(self.path).to_pyarrow_table(columns=list(EVENTS.column_names))


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path)


def test_rows_of_files_are_those_of_the_records(query: Query) -> None:
    batches = [records(0, DAY_SECONDS), records(1)]
    found = written(query.path, *batches)
    places = [(each["date"], each["payload_case"], each["rows"]) for each in found]
    assert sorted(places, key=str) == [
        ("2024-03-01", "liquidation", 2),
        ("2024-03-01", "trade", 2),
        ("2024-03-01", "unreadable", 2),
        ("2024-03-02", "liquidation", 1),
        ("2024-03-02", "trade", 1),
    ]
    query.plan(0, 1)
    query.commits.add(found, 0)
    expected = pa.Table.from_batches(map(bronze_batch, batches))
    order = [(name, "ascending") for name in ("date", "payload_case", "position", "envelope")]
    assert query.table().cast(arrow_schema(EVENTS)).sort_by(order) == expected.sort_by(order)


def test_log_has_the_times_of_a_file(query: Query) -> None:
    query.plan(0, 1)
    query.commits.add(written(query.path, records(0)), 0)
    path = str(query.path)
    only_trades = {"payload_case": ["trade"]}
    assert known_times(path, "local_ts", [Times(0, NOON_US)], **only_trades) == []
    assert known_times(path, "local_ts", [Times(0, NOON_US + 10_000)], **only_trades)


def test_file_has_no_more_than_its_size(query: Query) -> None:
    batches = iter([records(0), records(1)])
    found = [row for batch in write_files(str(query.path), batches, 1) for row in batch.to_pylist()]
    assert [each["rows"] for each in found] == [1] * 6


def test_full_disk_leaves_no_file_of_the_task(query: Query) -> None:
    files = write_files(str(query.path), iter([records(0), records(1)]), 1)
    next(files)
    assert list(query.path.rglob("*.parquet"))
    with full_disk(), pytest.raises(LakeError, match="cannot be written: File too large"):
        next(files)
    assert list(query.path.rglob("*.parquet")) == []


def test_batch_is_committed_once(query: Query) -> None:
    query.plan(0, 3)
    query.run(0)
    query.run(0)
    assert query.rows() == 3
    query.plan(1, 6)
    query.run(1)
    assert query.rows() == 6


@pytest.mark.parametrize("batch", [0, 1])
def test_older_checkpoint_does_not_make_new_batches_known(query: Query, batch: int) -> None:
    for number in range(2):
        query.plan(number, number)
        query.run(number)
    query.plan(batch, 9)
    query.run(batch)
    assert query.rows() == 9
    query.run(batch)
    assert query.rows() == 9


def test_batch_without_events_needs_no_commit(query: Query) -> None:
    query.plan(0, 0)
    query.commits.add([], 0)
    assert DeltaTable(query.path).version() == 0
