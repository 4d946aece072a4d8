"""A lake that version 0.1.0 left half filled: this version continues from its checkpoints.

Nothing in a lake or in a files bus holds an absolute path, so the archive is unpacked anywhere.
"""

import json
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
import zstandard
from pyspark.sql import SparkSession

from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.lake.jobs import ALL, Job, JobSettings
from tardis_machine.lake.query.quality import check_lake
from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.settings import LakeSettings, SparkSettings

pytestmark = pytest.mark.spark

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "version_0" / "lake.tar.zst"
OLD_EVENTS, NEW_EVENTS = 330, 266
SILVER_ROWS = {"trades": 144, "book_changes": 333, "quotes": 59, "derivative_tickers": 60}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Unpack `bus`, `lake` (the first half of the bus) and `expected` (Gold of the whole bus)."""
    with (
        ARCHIVE.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as raw,
        tarfile.open(fileobj=raw, mode="r|") as archive,
    ):
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def ask(root: Path, sql: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Query(str(root), sql).lines("json")]


def test_lake_of_version_0_is_continued(spark: SparkSession, folder: Path) -> None:
    root = folder / "lake"
    said: list[str] = []
    settings = JobSettings(
        spark=SparkSettings(),
        lake=LakeSettings(root=str(root)),
        publishing=PublishingSettings(files=FilesSettings(dir=folder / "bus")),
        once=True,
    )
    Job(settings, ALL, said.append, threading.Event()).run_in(spark)
    assert said[0].startswith(f"ingest-files: {NEW_EVENTS} rows in 1 batch")
    assert said[1].startswith(f"refine: {NEW_EVENTS} rows in 1 batch")
    queries = {path.name for path in (root / "_checkpoints").iterdir()}
    assert queries == {"ingest-files", "refine", "serve"}
    check_events(root)
    check_gold(root, folder / "expected")
    assert not [finding for finding in check_lake(str(root)) if finding.is_error]


def check_events(root: Path) -> None:
    """Check that Bronze and Silver have every event of both halves once."""
    place = "select distinct bus, stream, partition, position from bronze.events"
    for sql in ("select count(*) as n from bronze.events", f"select count(*) as n from ({place})"):
        assert ask(root, sql) == [{"n": OLD_EVENTS + NEW_EVENTS}]
    for table, rows in SILVER_ROWS.items():
        assert ask(root, f"select count(*) as n from silver.{table}") == [{"n": rows}]


def check_gold(root: Path, expected: Path) -> None:
    """Check that Gold equals what the old version computed from the whole bus."""
    for file in sorted(expected.iterdir()):
        wanted = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        found = ask(root, f"select * from {file.stem} order by all")
        assert len(found) == len(wanted)
        for row, old in zip(found, wanted, strict=True):
            # Version 0.1.0 took the contracts of an inverse instrument for amounts of base.
            same = {name for name in old if name != "notional"}
            assert {name: row[name] for name in same} == {name: near(old[name]) for name in same}


def near(value: Any) -> Any:
    """Return a value that also equals a sum of the same numbers in another order."""
    return pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
