"""Dead letters: readable, complete, bounded."""

from pathlib import Path

import pytest

from tardis_machine.buses.files.log import parse_records
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.model.errors import RequestError, SinkError
from tardis_machine.model.time import DAY_US
from tardis_machine.sinks.dead_letters.files import DeadLetters, letter_files, read_letters
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.log_writer import LogWriter
from tardis_machine.sinks.publisher.redrive import find_redrives
from tardis_machine.sinks.records import RecordPacker
from tests.unit.sinks.delivery import events, ids

REASON = Result(Outcome.BAD_RECORD, "too_large", "9 MB")
START_US = 1_709_251_200_000_000


class Office:
    """Dead letters with a clock that tests own."""

    def __init__(self, folder: Path, max_bytes: int = 1 << 20) -> None:
        self.now_us = START_US
        self.lost: list[int] = []
        self.letters = DeadLetters(
            folder, "memory", max_bytes, Headers({}), lambda: self.now_us, self.lost.append
        )

    def add(self, count: int = 1, first: int = 0) -> None:
        self.letters.add([(event, REASON) for event in events(count, first=first)])


def test_letter_is_a_line_of_json_and_a_line_of_base64(tmp_path: Path) -> None:
    Office(tmp_path).add()
    described, envelope = (tmp_path / "dead-letter-2024-03-01.tmdl").read_text().splitlines()
    assert described.startswith('{"time":"2024-03-01T00:00:00.000000Z","bus":"memory"')
    assert '"reason":"too_large"' in described
    assert "{" not in envelope


def test_each_day_has_its_file_and_files_are_listed_in_order(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.add()
    office.now_us += DAY_US
    office.add(first=1)
    names = [path.name for path in letter_files(tmp_path)]
    assert names == ["dead-letter-2024-03-01.tmdl", "dead-letter-2024-03-02.tmdl"]


def test_oldest_letters_are_removed_and_counted_when_there_are_too_many(tmp_path: Path) -> None:
    office = Office(tmp_path, max_bytes=20_000)
    for number in range(60):
        office.add(first=number)
    total = sum(path.stat().st_size for path in letter_files(tmp_path))
    assert total <= 20_000
    kept = [letter for path in letter_files(tmp_path) for letter in read_letters(path)]
    assert kept[-1].headers["deliveryId"] == "tester-boot-59"
    assert sum(office.lost) == 60 - len(kept)


def test_letter_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    Office(tmp_path).add(2)
    (path,) = letter_files(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    assert len(list(read_letters(path))) == 1


def test_other_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tmdl"
    path.write_text("hello\nworld\n")
    with pytest.raises(SinkError, match="entry 1 is not a valid dead letter"):
        list(read_letters(path))


def test_letters_are_redriven_to_their_bus_with_their_old_ids(tmp_path: Path) -> None:
    Office(tmp_path).add(700)
    (path,) = letter_files(tmp_path)
    redrives = list(find_redrives(path))
    assert {redrive.bus for redrive in redrives} == {"memory"}
    records = [record for redrive in redrives for record in parse_records(redrive.records)]
    assert [record.headers["deliveryId"] for record in records] == ids(events(700))
    assert records[0].destination == "bronze"


def test_stream_is_redriven_up_to_its_durable_end(tmp_path: Path) -> None:
    packer = RecordPacker(Headers({}))
    writer = LogWriter(tmp_path, segment_bytes=1)
    writer.append(packer.pack(events(3)))
    writer.sync()
    writer.append(packer.pack(events(1, first=3)))
    redrives = list(find_redrives(tmp_path))
    records = [record for redrive in redrives for record in parse_records(redrive.records)]
    assert [record.headers["deliveryId"] for record in records] == ids(events(3))
    assert {redrive.bus for redrive in redrives} == {""}
    (closed,) = tmp_path.glob("*.log")
    assert list(find_redrives(closed)) == redrives
    writer.close()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing.tmdl", "does not exist"),
        ("odd.txt", "not a dead-letter file"),
        ("", "neither segments"),
    ],
)
def test_other_paths_are_refused(tmp_path: Path, name: str, problem: str) -> None:
    if name == "odd.txt":
        (tmp_path / name).touch()
    with pytest.raises(RequestError, match=problem):
        list(find_redrives(tmp_path / name))
