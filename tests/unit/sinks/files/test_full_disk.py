"""The embedded bus on a disk that takes small blocks and no large ones."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tardis_machine.buses.files.log import read_blocks, segments
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.files.sink import MAX_PAUSE_SECONDS, FilesSink
from tests.contract.sinks import make_events

ROOM_BYTES = 4096
ATTEMPTS = 12


@contextmanager
def little_room(size_bytes: int) -> Iterator[None]:
    """Let files become no larger than this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def sizes(stream: Path) -> list[int]:
    return [segment.path.stat().st_size for segment in segments(stream)]


def count(stream: Path) -> int:
    return sum(len(block.records) for each in segments(stream) for block in read_blocks(each.path))


def test_full_disk_gets_no_new_segments_and_longer_pauses(tmp_path: Path) -> None:
    settings = FilesSettings(dir=tmp_path)
    sink, stream = FilesSink(settings, EventBusSettings()), tmp_path / "bronze"
    sink.open()
    many, one = make_events(settings.router(), 200), make_events(settings.router(), 1)
    pauses, stored = [], 0
    with little_room(ROOM_BYTES):
        for _ in range(ATTEMPTS):
            (result,) = {*sink.send(many)}
            assert result.outcome is Outcome.CLIENT_LOST
            pauses.append(result.retry_after_seconds)
            sink.open()
            # The sender probes with single events, and these fit for a while.
            stored += sink.send(one)[0].outcome is Outcome.OK
            assert len(sizes(stream)) == 1
    assert stored > 2
    assert pauses == sorted(pauses)
    assert pauses[0] < 1
    assert pauses[-1] == MAX_PAUSE_SECONDS
    assert {result.outcome for result in sink.send(many)} == {Outcome.OK}
    with little_room(ROOM_BYTES):
        assert sink.send(many)[0].retry_after_seconds == pauses[0]
    sink.close(1)
    assert count(stream) == stored + len(many)
    assert len(sizes(stream)) == 1


def test_segment_in_which_nothing_could_be_written_is_not_left(tmp_path: Path) -> None:
    settings = FilesSettings(dir=tmp_path)
    stream = tmp_path / "bronze"
    for _ in range(3):
        sink = FilesSink(settings, EventBusSettings())
        sink.open()
        with little_room(100):
            assert sink.send(make_events(settings.router(), 9))[0].outcome is Outcome.CLIENT_LOST
        sink.close(1)
        assert sizes(stream) == []
    sink = FilesSink(settings, EventBusSettings())
    sink.open()
    assert sink.send(make_events(settings.router(), 9))[0].outcome is Outcome.OK
    sink.close(1)
    assert [segment.number for segment in segments(stream)] == [1]
