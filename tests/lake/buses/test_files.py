"""The reader of the files bus, held to the contract of all readers, and what only files have."""

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tardis_machine.buses.files.ids import ID_FILE, read_id
from tardis_machine.buses.files.log import LogError, pack_headers, pack_record, segments
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.files.reader import FilesBus
from tardis_machine.lake.buses.positions import STREAMS
from tardis_machine.lake.buses.source import StreamReader
from tardis_machine.lake.errors import BusError, DataLossError
from tardis_machine.sinks.log_writer import LogWriter
from tests.contract.bus_readers import (
    POLICY,
    BusReaderContract,
    MicroBatches,
    ReadableBus,
    all_envelopes,
    as_logged,
    numbered,
    rows_of,
)

# Real records have headers; limits count on records of some size.
HEADERS = pack_headers({"note": "x" * 250})


class FilesUnderTest:
    """A directory with two streams; every write is a segment of its own."""

    has_nulls = False
    is_anew_after_trim = False
    keeps_planned = False
    has_times = False
    has_server = False
    secrets: Sequence[str] = ()

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.settings = FilesSettings(dir=directory)
        self.bus = FilesBus(self.settings)
        directory.mkdir()

    def write(self, envelopes: Sequence[bytes | None]) -> None:
        for lane in range(2):
            self.append(f"stream-{lane}", envelopes[lane::2])

    def append(self, stream: str, envelopes: Sequence[bytes | None]) -> None:
        writer = LogWriter(self.directory / stream, segment_bytes=1 << 20)
        for envelope in envelopes:
            assert envelope is not None
            writer.append(pack_record(b"stream", b"key", HEADERS, envelope))
            writer.sync()
        writer.close()

    def trim(self) -> None:
        for log in self.directory.iterdir():
            for segment in segments(log):
                segment.path.unlink()

    def take_down(self) -> None:
        raise NotImplementedError

    def bring_back(self) -> None:
        raise NotImplementedError


@pytest.fixture
def files(tmp_path: Path) -> FilesUnderTest:
    return FilesUnderTest(tmp_path / "bus")


@pytest.fixture
def readable(files: FilesUnderTest) -> ReadableBus:
    return files


class TestFiles(BusReaderContract):
    pass


def planned(reader: StreamReader) -> tuple[dict[str, object], dict[str, object]]:
    start = reader.initialOffset()
    return start, as_logged(reader.latestOffset(start, reader.getDefaultReadLimit()))


def test_large_range_is_cut_into_tasks_that_hold_all(files: FilesUnderTest) -> None:
    for first in range(0, 600, 200):
        files.append("bronze", numbered(200, first))
    reader = StreamReader(files.bus, ReadPolicy(rows_per_task=100))
    partitions = reader.partitions(*planned(reader))
    rows = rows_of(reader, partitions)
    assert 2 < len(partitions) < 20
    assert [row["envelope"] for row in rows] == numbered(600)


def test_open_segment_is_read_as_far_as_it_is_durable(files: FilesUnderTest) -> None:
    writer = LogWriter(files.directory / "bronze", segment_bytes=1 << 20)
    batches = MicroBatches(files.bus, POLICY)
    found = []
    for number in range(3):
        writer.append(pack_record(b"s", b"k", HEADERS, b"durable-%d" % number))
        writer.sync()
        writer.append(pack_record(b"s", b"k", HEADERS, b"waiting-%d" % number))
        found.append([row["envelope"] for row in batches.run()])
    writer.close()
    found.append([row["envelope"] for row in batches.run()])
    assert found == [
        [b"durable-0"],
        [b"waiting-0", b"durable-1"],
        [b"waiting-1", b"durable-2"],
        [b"waiting-2"],
    ]


def test_removed_part_of_a_planned_range_is_noticed(files: FilesUnderTest) -> None:
    for first in range(0, 30, 10):
        files.append("bronze", numbered(10, first))
    reader = StreamReader(files.bus, POLICY)
    partitions = reader.partitions(*planned(reader))
    segments(files.directory / "bronze")[0].path.unlink()
    with pytest.raises(DataLossError, match="--fail-on-data-loss false"):
        rows_of(reader, partitions)
    forgiving = StreamReader(files.bus, ReadPolicy(fails_on_loss=False))
    assert all_envelopes(rows_of(forgiving, partitions)) == Counter(numbered(20, first=10))


def test_everything_unread_removed_is_noticed_before_new_events_come(files: FilesUnderTest) -> None:
    files.append("bronze", numbered(10))
    before = MicroBatches(files.bus, POLICY)
    before.run()
    files.append("bronze", numbered(10, first=10))
    files.trim()
    with pytest.raises(DataLossError):
        MicroBatches(files.bus, POLICY, before.offset).run()


@pytest.mark.parametrize("count", [5, 40])
def test_stream_made_anew_is_noticed_however_long_it_is(files: FilesUnderTest, count: int) -> None:
    for first in (0, 10):
        files.append("bronze", numbered(10, first))
    before = MicroBatches(files.bus, POLICY)
    before.run()
    shutil.rmtree(files.directory / "bronze")
    files.append("bronze", numbered(count, first=20))
    with pytest.raises(DataLossError, match="recreated"):
        MicroBatches(files.bus, POLICY, before.offset).run()
    after = MicroBatches(files.bus, ReadPolicy(fails_on_loss=False), before.offset).run()
    assert all_envelopes(after) == Counter(numbered(count, first=20))


def test_positions_of_the_version_before_are_continued(files: FilesUnderTest) -> None:
    files.append("bronze", numbered(10))
    before = MicroBatches(files.bus, POLICY)
    before.run()
    assert before.offset is not None
    # Neither that version's positions nor its streams have ids.
    (files.directory / "bronze" / ID_FILE).unlink()
    old = {name: value for name, value in before.offset.items() if name != STREAMS}
    assert list(old) == ["bronze"]
    files.append("bronze", numbered(5, first=10))
    after = MicroBatches(files.bus, POLICY, old)
    assert all_envelopes(after.run()) == Counter(numbered(5, first=10))
    assert after.offset is not None
    assert after.offset[STREAMS] == {"bronze": read_id(files.directory / "bronze")}


def test_batch_that_was_planned_of_a_stream_made_anew_is_not_read(files: FilesUnderTest) -> None:
    files.append("bronze", numbered(10))
    start, end = planned(StreamReader(files.bus, POLICY))
    shutil.rmtree(files.directory / "bronze")
    files.append("bronze", numbered(20, first=10))
    with pytest.raises(DataLossError, match="recreated"):
        StreamReader(files.bus, POLICY).partitions(start, end)
    assert StreamReader(files.bus, ReadPolicy(fails_on_loss=False)).partitions(start, end) == []


def test_directory_that_cannot_be_written_is_known_by_its_path(tmp_path: Path) -> None:
    assert FilesBus(FilesSettings(dir=tmp_path)).endpoint == read_id(tmp_path)
    (tmp_path / ID_FILE).unlink()
    (tmp_path / ID_FILE).mkdir()
    assert FilesBus(FilesSettings(dir=tmp_path)).endpoint == str(tmp_path)


def test_damaged_block_is_an_error_that_names_the_place(files: FilesUnderTest) -> None:
    files.append("bronze", numbered(3))
    (segment,) = segments(files.directory / "bronze")
    data = bytearray(segment.path.read_bytes())
    data[-1] ^= 1
    segment.path.write_bytes(data)
    with pytest.raises(LogError, match="corrupt"):
        MicroBatches(files.bus, POLICY).run()


def test_missing_directory_says_what_to_do(tmp_path: Path) -> None:
    bus = FilesBus(FilesSettings(dir=tmp_path / "nowhere"))
    with pytest.raises(BusError, match=r"no files bus at .*nowhere.*--files-dir"):
        MicroBatches(bus, POLICY).run()
