"""`kill -9` of the Spark driver while events come in: the tables end complete, each event once.

The job that goes on after it is stopped by SIGTERM, in the middle of its batches.
"""

from pathlib import Path

import pytest

from tardis_machine.buses.files.settings import FilesSettings
from tests.lake.driver_kills import run_trial
from tests.lake.test_signals import check_printed

# Three starts of Spark, on a machine that may have other things to do.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(2400)]


def test_killed_and_stopped_driver_leaves_every_event_once_and_prints_no_traces(
    tmp_path: Path,
) -> None:
    bus = tmp_path / "bus"
    flags = ["--files-dir", str(bus)]
    trial = run_trial(FilesSettings(dir=bus), flags, tmp_path, kills=1, batch=20, is_stopped=True)
    assert len(trial.killed_in) == 1
    assert trial.stopped is not None
    check_printed(*trial.stopped)
