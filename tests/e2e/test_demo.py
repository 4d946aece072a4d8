"""The tour of `make demo`."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_demo_runs_offline_and_leaves_what_it_made(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tardis_machine", "demo", "--dir", str(tmp_path / "demo")]
    done = subprocess.run(
        [*command, "--minutes", "1"],
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "events delivered" in done.stdout
    assert list((tmp_path / "demo" / "bus").rglob("*.log"))
    assert "gold.bars" in done.stdout
    assert "BTCUSDT" in done.stdout
