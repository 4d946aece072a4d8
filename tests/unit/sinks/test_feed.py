"""One log as a bus reads it when bytes are missing or wrong: the rest arrives, all is counted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.feed import Feed
from tardis_machine.sinks.storage.chunks import HEAD_BYTES
from tardis_machine.sinks.storage.in_flight import ChunkInFlight
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.reader import Chunk
from tardis_machine.sinks.storage.segments import list_segments
from tardis_machine.sinks.storage.skipped import SkippedRanges, range_of
from tests.unit.sinks.storage.logs import append, open_writer, read_all

CHUNK_BYTES = HEAD_BYTES + len("context") + len("a 1\na 2\n")


class Reading:
    """A feed whose events are settled when the test says so."""

    def __init__(self, directory: Path, skipped: SkippedRanges | None = None) -> None:
        self.names: list[str] = []
        self.places: list[ChunkInFlight] = []
        path = directory / "position"
        self.feed = Feed(directory, "log", path, self._make, directory, skipped)

    def _make(self, chunk: Chunk, place: ChunkInFlight) -> list[Event]:
        self.names += [line.split()[0].decode() for line in chunk.body.splitlines()[:1]]
        self.places.append(place)
        return []

    def read(self) -> None:
        """Read to the end and move the position."""
        while self.feed.read() is not None:
            pass
        self.feed.advance()

    def deliver(self) -> None:
        """Settle what was read."""
        for place in self.places:
            place.settle_rest(Settled.DELIVERED)
        self.feed.advance()

    def counts(self) -> dict[Settled, int]:
        counts = self.feed.position.counts
        return {settled: counts[settled] for settled in Settled if counts[settled]}


def change(directory: Path, segment: int, edit: Callable[[bytearray], None]) -> None:
    path = list_segments(directory)[segment].path
    data = bytearray(path.read_bytes())
    edit(data)
    path.write_bytes(data)


def flip(offset: int) -> Callable[[bytearray], None]:
    def edit(data: bytearray) -> None:
        data[offset] ^= 1

    return edit


def cut(size: int) -> Callable[[bytearray], None]:
    def edit(data: bytearray) -> None:
        del data[len(data) - size :]

    return edit


def test_chunk_written_after_a_torn_one_is_not_taken_for_it(tmp_path: Path) -> None:
    append(open_writer(tmp_path), "a", "b")
    change(tmp_path, 0, cut(3))
    append(open_writer(tmp_path), "c", "d")
    reading = Reading(tmp_path)
    reading.read()
    reading.deliver()
    assert reading.names == ["a", "c", "d"]
    assert reading.counts() == {Settled.DELIVERED: 6}


@pytest.mark.parametrize(("size", "lost"), [(3, 1), (CHUNK_BYTES, 1), (CHUNK_BYTES + 3, 2)])
def test_segment_that_lost_its_end_hides_none_of_the_next(
    tmp_path: Path, size: int, lost: int
) -> None:
    append(open_writer(tmp_path), *"abcdefgh")
    change(tmp_path, 1, cut(size))
    reading = Reading(tmp_path)
    reading.read()
    reading.deliver()
    assert reading.names == [*"abcdef"[: 6 - lost], *"gh"]
    assert reading.counts() == {
        Settled.DELIVERED: 16 - 2 * lost,
        Settled.QUARANTINED: 2 * lost,
    }


def test_last_chunk_without_a_head_is_counted_once_another_comes(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, segment_bytes=10_000)
    append(writer, "a", "b")
    change(tmp_path, 0, flip(writer.end // 2))
    reading = Reading(tmp_path)
    reading.read()
    reading.deliver()
    append(writer, "c")
    reading.read()
    reading.deliver()
    assert reading.names == ["a", "c"]
    assert reading.counts() == {Settled.DELIVERED: 4, Settled.QUARANTINED: 2}


@pytest.mark.parametrize("offset", [0, HEAD_BYTES + 1])
def test_damage_to_a_chunk_that_was_settled_in_part_counts_the_rest(
    tmp_path: Path, offset: int
) -> None:
    append(open_writer(tmp_path, segment_bytes=10_000), "a", "b")
    before = Reading(tmp_path)
    before.read()
    before.places[0].outcomes[0] = Settled.DELIVERED
    before.feed.advance()
    before.feed.close()
    change(tmp_path, 0, flip(offset))
    reading = Reading(tmp_path)
    reading.read()
    reading.deliver()
    assert reading.names == ["b"]
    assert reading.counts() == {Settled.DELIVERED: 3, Settled.QUARANTINED: 1}


def test_log_whose_skipped_beginning_is_gone_is_counted_as_it_was_skipped(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, segment_bytes=CHUNK_BYTES)
    append(writer, "a", "b", "c")
    chunks = [each for each in read_all(tmp_path) if isinstance(each, Chunk)]
    skipped = SkippedRanges(tmp_path / "skipped")
    skipped.add(range_of(chunks[:2], b"", b"", kept=0), read_number=0)
    # No reader needs it, although no position was ever saved.
    list_segments(tmp_path)[0].path.unlink()
    reading = Reading(tmp_path, SkippedRanges(tmp_path / "skipped"))
    reading.read()
    reading.deliver()
    assert reading.names == ["c"]
    assert reading.counts() == {Settled.DELIVERED: 2, Settled.OVERFLOW: 4}
    reading.feed.close()
    writer.close()
