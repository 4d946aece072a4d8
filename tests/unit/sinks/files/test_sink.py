"""The embedded bus: streams, segments, retention, and a disk that does not work."""

import time
from pathlib import Path
from typing import Any

import pytest

from tardis_machine.buses.files.log import read_blocks, segment_path, segments
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.files.sink import MAX_OPEN_STREAMS, FilesSink
from tardis_machine.sinks.log_writer import LogWriter
from tests.contract.sinks import make_events


def open_sink(folder: Path, **options: Any) -> tuple[FilesSink, FilesSettings]:
    settings = FilesSettings(dir=folder / "bus", **options)
    sink = FilesSink(settings, EventBusSettings())
    sink.open()
    return sink, settings


def trades(settings: FilesSettings, count: int, *symbols: str) -> list[Event]:
    return make_events(settings.router(), count, symbols=symbols or ("XBTUSD",))


def stored(folder: Path, stream: str = "bronze") -> list[Any]:
    return [
        record
        for segment in segments(folder / "bus" / stream)
        for block in read_blocks(segment.path)
        for record in block.records
    ]


def outcomes(sink: FilesSink, events: list[Event]) -> set[Outcome]:
    return {result.outcome for result in sink.send(events)}


def test_each_destination_has_its_directory(tmp_path: Path) -> None:
    sink, settings = open_sink(tmp_path, stream_template="{{exchange}}-{{symbol}}")
    assert outcomes(sink, trades(settings, 6, "XBTUSD", "ETHUSD")) == {Outcome.OK}
    sink.close(1)
    assert len(stored(tmp_path, "bitmex-XBTUSD")) == 3
    assert {record.destination for record in stored(tmp_path, "bitmex-ETHUSD")} == {"bitmex-ETHUSD"}


def test_headers_and_compression_are_those_of_the_settings(tmp_path: Path) -> None:
    sink, settings = open_sink(
        tmp_path, static_headers={"env": "test"}, meta_headers_prefix="m.", compression="zstd"
    )
    sink.send(trades(settings, 500))
    sink.close(1)
    record = stored(tmp_path)[0]
    assert (record.headers["env"], record.headers["m.request_id"]) == ("test", "r-1")
    assert record.key == "bitmex|XBTUSD|trade"
    (segment,) = segments(tmp_path / "bus" / "bronze")
    size = sum(len(each.envelope) for each in stored(tmp_path))
    assert segment.path.stat().st_size < size / 2


def test_segments_are_closed_by_size_and_the_oldest_removed(tmp_path: Path) -> None:
    sink, settings = open_sink(tmp_path, segment_bytes=4096, retention_bytes=30_000)
    for _ in range(40):
        sink.send(trades(settings, 20))
    sink.close(1)
    # The next one looks for old segments at once, and then now and then.
    sink, settings = open_sink(tmp_path, segment_bytes=4096, retention_bytes=30_000)
    sink.send(trades(settings, 1))
    closed = [each for each in segments(tmp_path / "bus" / "bronze") if each.is_closed]
    assert closed[0].number > 1
    assert sum(each.path.stat().st_size for each in closed) <= 30_000
    sink.close(1)


def test_idle_sink_closes_segments_that_are_old_enough(tmp_path: Path) -> None:
    sink, settings = open_sink(tmp_path, segment_age_ms=1)
    sink.send(trades(settings, 1))
    stream = tmp_path / "bus" / "bronze"
    deadline = time.monotonic() + 120
    while not all(segment.is_closed for segment in segments(stream)):
        assert time.monotonic() < deadline
        sink.idle(0)
    sink.close(1)


def test_segments_are_numbered_without_gaps_over_restarts_and_failures(tmp_path: Path) -> None:
    sink, settings = open_sink(tmp_path)
    stream = tmp_path / "bus" / "bronze"
    assert outcomes(sink, trades(settings, 1)) == {Outcome.OK}
    sink.open()
    in_the_way = segment_path(stream, 2, is_closed=False)
    in_the_way.mkdir()
    assert outcomes(sink, trades(settings, 1)) == {Outcome.CLIENT_LOST}
    in_the_way.rmdir()
    for _ in range(2):
        sink.open()
        assert outcomes(sink, trades(settings, 1)) == {Outcome.OK}
    sink.close(1)
    assert [segment.number for segment in segments(stream)] == [1, 2, 3]


def test_stream_of_another_process_waits_and_the_others_go_on(tmp_path: Path) -> None:
    sink, settings = open_sink(tmp_path, stream_template="{{symbol}}")
    other = LogWriter(tmp_path / "bus" / "ETHUSD", segment_bytes=4096)
    results = sink.send(trades(settings, 2, "XBTUSD", "ETHUSD"))
    assert [result.outcome for result in results] == [Outcome.OK, Outcome.TRANSIENT]
    assert "in use by another process" in results[1].detail
    other.close()
    assert outcomes(sink, trades(settings, 2, "XBTUSD", "ETHUSD")) == {Outcome.OK}
    sink.close(1)


def test_many_streams_do_not_keep_as_many_files_open(tmp_path: Path) -> None:
    sink, settings = open_sink(tmp_path, stream_template="{{symbol}}")
    symbols = [f"S{number}" for number in range(MAX_OPEN_STREAMS + 20)]
    assert outcomes(sink, trades(settings, len(symbols), *symbols)) == {Outcome.OK}
    assert len(list((tmp_path / "bus").glob("*/*.open"))) == MAX_OPEN_STREAMS
    sink.close(1)


def test_stream_that_cannot_be_written_loses_the_client_and_comes_back(tmp_path: Path) -> None:
    sink, settings = open_sink(tmp_path)
    (tmp_path / "bus" / "bronze").write_text("in the way")
    assert outcomes(sink, trades(settings, 2)) == {Outcome.CLIENT_LOST}
    (tmp_path / "bus" / "bronze").unlink()
    sink.open()
    assert outcomes(sink, trades(settings, 2)) == {Outcome.OK}
    sink.close(1)


def test_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bus").write_text("in the way")
    with pytest.raises(SinkError, match="cannot be created"):
        open_sink(tmp_path)
