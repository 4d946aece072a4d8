"""Ctrl-C ends a job in the middle of a batch, and what it prints stays readable.

The same of SIGTERM and all stages at once is in `test_driver_kills.py`, where Spark runs anyway.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tardis_machine.buses.files.settings import FilesSettings
from tests.lake.live_producer import Producer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

READY_SECONDS = 600
END_SECONDS = 300
MOST_CHARACTERS = 2000
# What the JVM and Python print of an exception.
TRACE = re.compile(r"Traceback|^\s+at [\w.$]+\(|Exception|Caused by", re.MULTILINE)


def press_ctrl_c(pid: int) -> None:
    """Send what a terminal sends: every process of the command gets it."""
    os.killpg(pid, signal.SIGINT)


def stopped(folder: Path) -> tuple[int, str]:
    """Stop a job while it writes; return its exit code and everything it printed."""
    bus, lake, output = folder / "bus", folder / "lake", folder / "output"
    flags = ["--lake", str(lake), "--files-dir", str(bus), "--trigger-seconds", "0"]
    words = [sys.executable, "-m", "tardis_machine", "lake", "ingest", *flags]
    words += ["--profile", "quick", "--driver-memory", "1g"]
    with Producer(FilesSettings(dir=bus), 20, 1).running(), output.open("wb") as file:
        job = subprocess.Popen(words, stdout=file, stderr=file, start_new_session=True)
        try:
            wait_for_batches(lake, job, output)
            press_ctrl_c(job.pid)
            job.wait(END_SECONDS)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
    return job.returncode, output.read_text(errors="replace")


def wait_for_batches(lake: Path, job: "subprocess.Popen[bytes]", output: Path) -> None:
    """Wait until the job has planned a batch after its first one."""
    deadline = time.monotonic() + READY_SECONDS
    while not any(lake.glob("_checkpoints/ingest-*/offsets/1")):
        assert job.poll() is None, output.read_text(errors="replace")
        assert time.monotonic() < deadline, output.read_text(errors="replace")
        time.sleep(0.01)


def check_printed(code: int, printed: str) -> None:
    """Check that a job that was told to stop did so, and printed what a person can read."""
    assert code == 0, printed
    assert TRACE.findall(printed) == []
    assert len(printed) < MOST_CHARACTERS, printed
    assert re.search(r"^ingest-files: [\d,]+ rows in ", printed, re.MULTILINE)


def test_stopped_job_prints_no_traces(tmp_path: Path) -> None:
    check_printed(*stopped(tmp_path))
