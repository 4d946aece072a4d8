"""The tour of `make demo`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tardis_machine.lake.query.inventory import list_tables
from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.tables.gold import GOLD_TABLES

pytestmark = pytest.mark.spark

LIVE = "select distinct exchange from silver.trades where origin = 'realtime'"


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
    assert "/ws-stream-normalized" in done.stdout
    live = Query(str(tmp_path / "demo" / "lake"), LIVE).lines("json")
    assert {json.loads(line)["exchange"] for line in live} == {"binance-futures"}
    assert "gold.bars" in done.stdout
    assert "BTC-PERPETUAL" in done.stdout
    rows = {state.name: state.rows for state in list_tables(str(tmp_path / "demo" / "lake"))}
    assert [table.name for table in GOLD_TABLES if not rows.get(table.name)] == []
