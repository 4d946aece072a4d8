"""`lake check`: nothing to say of a sound lake; every kind of damage is found and counted."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tardis_machine.cli import main
from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.query.checks import Severity
from tardis_machine.lake.query.quality import Finding, check_lake, checks, run_check
from tardis_machine.lake.tables import table_named
from tests.lake.lakes import Lake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("restored_logging")]

Row = dict[str, Any]
MINUTE = timedelta(minutes=1)
NEW = {"ingest_ts": datetime(2100, 1, 1, tzinfo=UTC)}
"""Of an event that Gold need not have yet."""


@pytest.fixture
def root(full_lake: Lake, tmp_path: Path) -> Path:
    """Return a copy of a sound lake, to be damaged."""
    return Path(shutil.copytree(full_lake.root, tmp_path / "lake"))


def add_row(root: Path, name: str, change: Callable[[Row], Row]) -> None:
    """Append a changed copy of the first row of a table."""
    table = table_named(name)
    rows = pa.table(DeltaTable(root / table.path).to_pyarrow_table()).to_pylist()
    schema = arrow_schema(table)
    first = {key: value for key, value in rows[0].items() if key in schema.names}
    added = pa.Table.from_pylist([first | change(first)], schema=schema)
    write_deltalake(root / table.path, added, mode="append")


def test_sound_lake_passes(full_lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lake", "check", "--lake", full_lake.root], {}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.startswith("error")]
    assert lines[-1].endswith(" checks, 0 failed.")


ERRORS: dict[str, tuple[str, Callable[[Row], Row]]] = {
    "repeated events": ("silver.trades", lambda _: {"producer": "again"}),
    "trade events missing in Silver": (
        "bronze.events",
        lambda row: {"payload_case": "trade", "symbol": "LOST", "position": "lost"},
    ),
    "one preferred capture": (
        "gold.coverage",
        lambda row: {"data_type": "trade_bar", "symbol": "NEW", "is_preferred": False},
    ),
    "coverage counts its events": (
        "silver.trades",
        lambda row: {"symbol": "NEW", "event_ts": row["event_ts"]},
    ),
    "windows are those of Silver": ("gold.liquidations_1m", lambda _: {"symbol": "NEW"}),
    "seconds are those of Silver": (
        "gold.quotes_1s",
        lambda row: {"basis": "book_tickers", "second": row["second"] + MINUTE},
    ),
    "every trade counted once": ("gold.bars", lambda _: {"interval": "1m", "trades": 5}),
    "prices in order": ("gold.bars", lambda row: {"trades": 0, "close": row["high"] + 1}),
}


def found_by(root: Path, table: str, name: str) -> Finding:
    """Run one check."""
    (check,) = [each for each in checks() if (each.table, each.name) == (table, name)]
    return run_check(str(root), check)


@pytest.mark.parametrize("name", ERRORS)
def test_damage_is_an_error(root: Path, name: str) -> None:
    table, change = ERRORS[name]
    assert found_by(root, table, name).count == 0
    add_row(root, table, change)
    found = found_by(root, table, name)
    assert found.is_error
    assert found.examples


def test_damaged_lake_fails(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "prices in order"
    add_row(root, *ERRORS[name])
    assert main(["lake", "check", "--lake", str(root)], {}) == 1
    printed = capsys.readouterr().out
    assert f"error    gold.bars: {name}" in printed
    assert ", 0 failed." not in printed


WARNINGS: dict[str, tuple[str, Callable[[Row], Row]]] = {
    "undecodable events": (
        "bronze.events",
        lambda _: {"payload_case": "unknown", "position": "new"},
    ),
    "clock skew": (
        "silver.trades",
        lambda row: {"symbol": "SKEWED", "event_ts": row["local_ts"] + 2 * MINUTE, **NEW},
    ),
    "only partial captures": (
        "gold.coverage",
        lambda _: {"data_type": "quote_5s", "capture": "partial:2024", "is_preferred": True},
    ),
    "mixed mapper versions": (
        "silver.option_summaries",
        lambda _: {"symbol": "NEW", "mapper_version": 2, **NEW},
    ),
    "crossed quotes": (
        "gold.quotes_1s",
        lambda _: {"symbol": "CROSSED", "basis": "quotes", "bid_price": 2.0, "ask_price": 1.0},
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_odd_data_is_a_warning(root: Path, name: str) -> None:
    table, change = WARNINGS[name]
    add_row(root, table, change)
    found = found_by(root, table, name)
    assert (found.count, found.check.severity) == (1, Severity.WARNING)


def test_lake_with_odd_data_passes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for table, change in WARNINGS.values():
        add_row(root, table, change)
    assert main(["lake", "check", "--lake", str(root)], {}) == 0
    printed = capsys.readouterr().out
    for name, (table, _) in WARNINGS.items():
        assert f"warning  {table}: {name}: 1" in printed


def test_refused_events_are_counted_by_reason(root: Path) -> None:
    row = {"reason": "no symbol", "payload_case": "trade", "bus": "test", "stream": "s"}
    rows = [row | {"partition": "0", "position": str(number)} for number in range(3)]
    schema = arrow_schema(table_named("silver.quarantine"))
    write_deltalake(root / "silver" / "quarantine", pa.Table.from_pylist(rows, schema=schema))
    (finding,) = [each for each in check_lake(str(root)) if each.check.name == "rejected events"]
    assert (finding.count, finding.is_error) == (3, False)
    assert '"reason":"no symbol"' in finding.examples[0]
