"""Sinks by their settings."""

from pathlib import Path

from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.registry import make_sink


def test_sink_of_a_bus_is_made_from_its_settings(tmp_path: Path) -> None:
    settings = FilesSettings(dir=tmp_path, max_batch_size=7, fsync_ms=50)
    sink = make_sink(settings, EventBusSettings())
    assert (sink.max_batch_events, sink.max_batch_delay_seconds) == (7, 0.05)
