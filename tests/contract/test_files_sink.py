"""The embedded bus, held to the contract of all sinks."""

from pathlib import Path

import pytest

from tardis_machine.buses.files.log import durable_end, read_blocks, segments
from tardis_machine.buses.files.settings import FilesSettings
from tests.contract.sinks import BusUnderTest, Received, SinkContract
from tests.servers.exchange_paths import exchange_paths


class FilesUnderTest:
    """A directory that can be made unreachable."""

    too_large_bytes = None

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self.settings = FilesSettings(dir=directory, fsync_ms=1)

    def received(self) -> list[Received]:
        stream = self._directory / "bronze"
        last, end_byte = durable_end(stream)
        return [
            Received(
                record.key, record.headers["eventId"], record.headers["deliveryId"], record.envelope
            )
            for segment in segments(stream)
            for block in read_blocks(
                segment.path, end_byte=end_byte if segment.number == last else None
            )
            for record in block.records
        ]

    def take_down(self) -> None:
        self._directory.rename(self._directory.with_suffix(".away"))
        self._directory.write_text("in the way")

    def bring_back(self) -> None:
        away = self._directory.with_suffix(".away")
        exchange_paths(self._directory, away)
        away.unlink()


class TestFiles(SinkContract):
    @pytest.fixture
    def bus(self, tmp_path: Path) -> BusUnderTest:
        return FilesUnderTest(tmp_path / "bus")
