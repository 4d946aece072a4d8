"""`kill -9` of the Spark driver while events come in: the tables end complete, each event once."""

from pathlib import Path

import pytest

from tardis_machine.buses.files.settings import FilesSettings
from tests.lake.driver_kills import run_trial

# Three starts of Spark, on a machine that may have other things to do.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(2400)]


def test_killed_driver_leaves_every_event_once(tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    trial = run_trial(
        FilesSettings(dir=bus), ["--files-dir", str(bus)], tmp_path, kills=2, batch=20
    )
    assert len(trial.killed_in) == 2
