"""Minutes on disk: whole or not there, also when the disk is full or slow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tardis_machine.model.errors import SettingsError
from tardis_machine.model.time import MINUTE_US, parse_us
from tardis_machine.sources.cache import SliceFolder
from tardis_machine.sources.recording.directory import RecordingDirectory
from tardis_machine.sources.recording.exchange_lines import ExchangeLines
from tardis_machine.sources.recording.markers import RecordedLoss, read_marker, without_markers
from tardis_machine.sources.recording.writer import Block, RecordingWriter
from tardis_machine.sources.slices import read_slice

EXCHANGE = "bitmex"
START_US = parse_us("2026-03-01T00:00:00.000Z")
ROOM = 1 << 20


def minute(number: int) -> int:
    return START_US + number * MINUTE_US


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RecordingDirectory]:
    opened = RecordingDirectory(tmp_path)
    yield opened
    opened.close()


class Counts(list[tuple[str, str, int]]):
    """What was counted."""

    def note(self, exchange: str, outcome: str, messages: int) -> None:
        self.append((exchange, outcome, messages))


def block(number: int, data: bytes, messages: int = 1) -> Block:
    return Block(EXCHANGE, minute(number), data, messages)


def content(root: Path, number: int) -> bytes | None:
    file = SliceFolder(root, EXCHANGE, ()).find_exact(minute(number), 1)
    return b"".join(read_slice(file.path)) if file else None


def test_minutes_get_their_names_when_they_end(directory: RecordingDirectory) -> None:
    counts = Counts()
    writer = RecordingWriter(directory, ROOM, counts.note)
    for number, data in ((0, b"a\n"), (0, b"b\n"), (1, b"c\n")):
        assert writer.put(block(number, data))
    writer.close()
    assert content(directory.path, 0) == b"a\nb\n"
    assert content(directory.path, 1) == b"c\n"
    assert [*(directory.path / "open").iterdir()] == []
    assert counts == []


def test_minute_that_was_recorded_before_is_continued(directory: RecordingDirectory) -> None:
    for data in (b"a\n", b"b\n"):
        writer = RecordingWriter(directory, ROOM, Counts().note)
        writer.put(block(0, data))
        writer.close()
    assert content(directory.path, 0) == b"a\nb\n"


def test_full_disk_costs_a_minute_and_the_next_one_starts_over(
    directory: RecordingDirectory,
) -> None:
    counts = Counts()
    writer = RecordingWriter(directory, ROOM, counts.note)
    directory.open_path(EXCHANGE, minute(0)).symlink_to("/dev/full")
    writer.put(block(0, b"a\n", 3))
    writer.put(block(1, b"b\n", 2))
    writer.close()
    assert content(directory.path, 0) is None
    assert content(directory.path, 1) == b"\nb\n"
    assert counts == [(EXCHANGE, "disk", 3)]


def test_folder_that_cannot_be_made_is_counted_for_every_block(
    directory: RecordingDirectory,
) -> None:
    counts = Counts()
    (directory.path / "feeds").write_text("no folder")
    writer = RecordingWriter(directory, ROOM, counts.note)
    writer.put(block(0, b"a\n", 3))
    writer.put(block(0, b"b\n", 2))
    writer.close()
    assert sum(messages for _, _, messages in counts) == 5
    assert {outcome for _, outcome, _ in counts} == {"disk"}


def test_directory_has_one_recorder_and_forgets_what_a_killed_one_left(tmp_path: Path) -> None:
    first = RecordingDirectory(tmp_path)
    first.open_path(EXCHANGE, minute(0)).write_bytes(b"half a frame")
    with pytest.raises(SettingsError, match="another process does"):
        RecordingDirectory(tmp_path)
    first.close()
    second = RecordingDirectory(tmp_path)
    assert [*(tmp_path / "open").iterdir()] == []
    second.close()


def test_directory_that_cannot_be_written_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"Cannot record to .*file"):
        RecordingDirectory(tmp_path / "file")


class Watch:
    """A clock that the test sets."""

    now_us = minute(0)

    def __call__(self) -> int:
        return self.now_us


def lines(
    directory: RecordingDirectory, watch: Watch, room: int = ROOM
) -> tuple[ExchangeLines, RecordingWriter, Counts]:
    counts = Counts()
    writer = RecordingWriter(directory, room, counts.note)
    return ExchangeLines(EXCHANGE, "test", writer, watch, counts.note), writer, counts


def test_lines_have_seven_digits_and_no_newlines_within(directory: RecordingDirectory) -> None:
    collected, writer, _ = lines(directory, Watch())
    collected.add(minute(0) + 123_456, b'{\n"a":1}')
    collected.add(minute(0) + 123_457, b"pong")
    collected.end()
    writer.close()
    recorded = (content(directory.path, 0) or b"").split(b"\n")
    assert without_markers(recorded) == [b"", b'2026-03-01T00:00:00.1234560Z { "a":1}', b""]
    marker = read_marker(recorded[1])
    assert marker is not None
    assert marker.recorder == "test"


def test_every_minute_has_a_slice_also_a_silent_one(directory: RecordingDirectory) -> None:
    watch = Watch()
    collected, writer, _ = lines(directory, watch)
    for number in range(3):
        watch.now_us = minute(number)
        collected.flush()
    collected.end()
    writer.close()
    assert all(content(directory.path, number) is not None for number in range(3))


def test_clock_that_is_set_back_does_not_bring_lines_back(directory: RecordingDirectory) -> None:
    collected, writer, _ = lines(directory, Watch())
    collected.add(minute(1), b'{"a":1}')
    collected.add(minute(0), b'{"a":2}')
    collected.end()
    writer.close()
    assert content(directory.path, 0) is None
    assert (content(directory.path, 1) or b"").count(b"2026-03-01T00:01:00.0000000Z {") == 3


def test_what_finds_no_room_is_counted_and_what_follows_starts_over(
    directory: RecordingDirectory,
) -> None:
    collected, writer, counts = lines(directory, Watch(), room=200)
    for message in (b'{"a":1}', b'{"b":"' + b"x" * 300 + b'"}', b'{"c":1}'):
        collected.add(minute(0), message)
        collected.flush()
    collected.end()
    writer.close()
    recorded = content(directory.path, 0) or b""
    assert (EXCHANGE, "queue", 1) in counts
    assert b'{"b"' not in recorded
    assert b'\n\n2026-03-01T00:00:00.0000000Z {"c":1}\n' in recorded


def test_loss_of_everything_is_an_empty_line_for_others(directory: RecordingDirectory) -> None:
    collected, writer, _ = lines(directory, Watch())
    for is_everything in (False, True):
        collected.mark(
            RecordedLoss(
                local_timestamp="2026-03-01T00:00:00.000Z",
                data_types=("trade",),
                symbols=("XBTUSD",),
                is_everything=is_everything,
            )
        )
    collected.end()
    writer.close()
    recorded = (content(directory.path, 0) or b"").split(b"\n")
    assert [line == b"" for line in recorded] == [True, False, False, False, True, True]
