"""The tour of `make demo`, and what documents say that needs the lake it leaves."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tardis_machine.lake.query.inventory import list_tables
from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.tables.gold import GOLD_TABLES
from tests.e2e.test_documents import (
    AFTER_THE_DEMO,
    DOCUMENTS,
    STEP_OF_THE_DEMO,
    Block,
    blocks_of,
    own_environ,
    run,
)

pytestmark = pytest.mark.spark

LIVE = "select distinct exchange from silver.trades where origin = 'realtime'"


@dataclass(frozen=True)
class Tour:
    """A demo that has ended well: where, and what it printed."""

    folder: Path
    printed: str

    @property
    def lake(self) -> str:
        return str(self.folder / "lake")


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    """Run the demo once."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "tardis_machine", "demo", "--dir", ".", "--minutes", "1"]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Tour(folder, done.stdout)


def documented(treatment: str) -> list[Block]:
    """Return the blocks of all documents with a treatment."""
    return [
        block
        for document in DOCUMENTS
        for block in blocks_of(document)
        if block.treatment == treatment
    ]


def test_demo_runs_offline_and_leaves_what_it_made(tour: Tour) -> None:
    assert "events delivered" in tour.printed
    assert list((tour.folder / "bus").rglob("*.log"))
    assert "/ws-stream-normalized" in tour.printed
    live = Query(tour.lake, LIVE).lines("json")
    assert {json.loads(line)["exchange"] for line in live} == {"binance-futures"}
    assert "gold.bars" in tour.printed
    assert "BTC-PERPETUAL" in tour.printed
    rows = {state.name: state.rows for state in list_tables(tour.lake)}
    assert [table.name for table in GOLD_TABLES if not rows.get(table.name)] == []


def test_steps_that_documents_show_are_those_of_the_demo(tour: Tour) -> None:
    steps = [line for block in documented(STEP_OF_THE_DEMO) for line in block.text.splitlines()]
    assert any("lake run" in step for step in steps)
    assert {f"$ {step}" for step in steps} <= set(tour.printed.splitlines())


def test_blocks_of_documents_run_on_what_the_demo_leaves(tour: Tour) -> None:
    blocks = documented(AFTER_THE_DEMO)
    assert {block.language for block in blocks} == {"sh", "python"}
    for block in blocks:
        run(block, tour.folder, own_environ())
