"""`lake rebuild`: a corrected replay shows, and nothing else changes."""

import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tardis_machine.bronze.content import Content
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.cli import main
from tardis_machine.lake.errors import LakeError, LakeInUseError
from tardis_machine.lake.jobs import JobSettings
from tardis_machine.lake.query.quality import check_lake
from tardis_machine.lake.rebuild import Rebuild, RebuildRange
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.lake.store.times import Times
from tardis_machine.lake.tables.bronze import EVENTS
from tardis_machine.lake.tables.silver import LIQUIDATIONS, TRADES
from tests.lake.driver_kills import ROOT, kill_tree
from tests.lake.events import INGEST_US, NOON_US, SECOND_US, encoded, liquidation, trade
from tests.lake.gold.test_build import gold
from tests.lake.lakes import DEADLINE_SECONDS, Lake
from tests.servers.process import spawn

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("restored_logging")]

HOUR = RebuildRange(times=Times(NOON_US, NOON_US + 3600 * SECOND_US - 1))
OTHER = {"exchange": "deribit", "symbol": "BTC-PERPETUAL"}


def rebuild(lake: Lake, wanted: RebuildRange, **settings: float) -> list[str]:
    """Rebuild, and return the lines of progress."""
    said: list[str] = []
    job = JobSettings(
        spark=SparkSettings(),
        lake=LakeSettings(root=lake.root, **settings),  # type: ignore[arg-type]
        publishing=PublishingSettings(),
    )
    assert Rebuild(job, wanted, said.append, threading.Event()).run_in(lake.spark)
    return said


def prices(lake: Lake) -> list[tuple[object, ...]]:
    return lake.values("silver.trades", "exchange", "price")


def minute_bars(lake: Lake) -> list[tuple[object, ...]]:
    bars = lake.values("gold.bars", "interval", "exchange", "open", "close", "trades")
    return [bar[1:] for bar in bars if bar[0] == "1m"]


def test_corrected_replay_shows_after_a_rebuild_and_not_before(lake: Lake) -> None:
    wrong = [trade(1, 100), trade(2, 101), trade(3, 50, **OTHER), liquidation(5)]
    lake.deliver(encoded(wrong))
    lake.build()
    # The same identities, other prices; one has moved to another minute.
    second = trade(2, 102, timestamp=trade(-1).timestamp)
    right = [trade(1, 100), second, trade(3, 51, **OTHER)]
    lake.deliver(encoded(right, content=Content(mapper_version=2), ingest_us=INGEST_US + 1))
    # Who replays with the old version afterwards does not undo it.
    lake.deliver(encoded(wrong, ingest_us=INGEST_US + 2))
    lake.build()
    assert prices(lake) == [("bitmex", 100.0), ("bitmex", 101.0), ("deribit", 50.0)]

    bitmex = replace(HOUR, exchange="bitmex", tables=(TRADES, LIQUIDATIONS))
    said = rebuild(lake, bitmex)
    assert said[0] == "rebuild 1/2: 2024-03-01 silver.trades: 0 inserted, 2 updated, 0 deleted"
    assert said[1].startswith("rebuild 2/2: 2024-03-01 silver.liquidations: 0 inserted, 1 updated")
    assert prices(lake) == [("bitmex", 100.0), ("bitmex", 102.0), ("deribit", 50.0)]
    assert minute_bars(lake) == [
        ("bitmex", 100.0, 100.0, 1),
        ("bitmex", 102.0, 102.0, 1),
        ("deribit", 50.0, 50.0, 1),
    ]
    # Once more changes nothing there.
    said = rebuild(lake, replace(HOUR, tables=(TRADES,)))
    assert said[0].endswith("0 inserted, 1 updated, 0 deleted")
    assert prices(lake)[-1] == ("deribit", 51.0)
    assert lake.values("silver.trades", "mapper_version") == [(2,), (2,), (2,)]
    assert not [finding for finding in check_lake(lake.root) if finding.is_error]


def test_killed_rebuild_ends_like_an_undisturbed_one_and_keeps_others_out(
    lake: Lake, tmp_path: Path
) -> None:
    wrong = [trade(1, 100), trade(2, 101), trade(70, 102), liquidation(5)]
    lake.append(encoded(wrong))
    right = [trade(1, 200), trade(2, 201, timestamp=trade(130).timestamp), trade(70, 102)]
    lake.append(encoded(right, content=Content(mapper_version=2), ingest_us=INGEST_US + 1))
    lake.refine()
    lake.build()
    undisturbed = Lake(lake.spark, tmp_path / "copy")
    shutil.copytree(lake.root, undisturbed.root)
    wanted = replace(HOUR, tables=(TRADES, LIQUIDATIONS))

    log = tmp_path / "rebuild.log"
    flags = ["--from", "2024-03-01T12:00", "--to", "2024-03-01T13:00", "--profile", "quick"]
    command = [sys.executable, "-m", "tardis_machine", "lake", "rebuild", "--lake", lake.root]
    commits = len(list(Path(lake.root, "silver", "trades", "_delta_log").glob("*.json")))
    killed = spawn([*command, *flags, "--driver-memory", "1g"], log, ROOT)
    try:
        wait_for(killed, log, Path(lake.root, "silver", "trades"), commits + 1)
        # Silver is corrected and Gold is not yet.
        with pytest.raises(LakeInUseError, match=f"{killed.pid}.*runs refine"):
            rebuild(lake, wanted)
    finally:
        kill_tree(killed)
    rebuild(lake, wanted)
    rebuild(undisturbed, wanted)
    assert prices(lake) == [("bitmex", 102.0), ("bitmex", 200.0), ("bitmex", 201.0)]
    assert gold(lake) == gold(undisturbed)
    assert lake.values("silver.trades", "*") == undisturbed.values("silver.trades", "*")


def wait_for(process: subprocess.Popen[bytes], log: Path, table: Path, commits: int) -> None:
    """Wait until a table has so many commits."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(list((table / "_delta_log").glob("*.json"))) < commits:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


def test_rows_without_bronze_stay_and_rejected_ones_follow_the_limits(lake: Lake) -> None:
    far = trade(10, 100, timestamp=trade(-7200).timestamp)
    lake.deliver(encoded([trade(1, 100)]))
    lake.delete(EVENTS.name)
    lake.deliver(encoded([trade(2, 101), far]))
    wanted = replace(HOUR, tables=(TRADES,))
    said = rebuild(lake, wanted, max_event_skew_seconds=3600.0)
    assert said[0].endswith("0 inserted, 0 updated, 1 deleted")
    assert prices(lake) == [("bitmex", 100.0), ("bitmex", 101.0)]
    assert lake.values("silver.quarantine", "reason") == [("event time too far from local time",)]
    said = rebuild(lake, wanted)
    assert said[0].endswith("1 inserted, 0 updated, 0 deleted")
    assert len(prices(lake)) == 3
    assert lake.values("silver.quarantine", "reason") == []
    with pytest.raises(LakeError, match="has no events of these tables between 2024-03-01T12:00"):
        rebuild(lake, replace(HOUR, tables=(LIQUIDATIONS,)))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--from", "noon", "--to", "2024-03-02"], "--from must be a UTC time"),
        (["--from", "2024-03-02", "--to", "2024-03-02"], "must be after --from"),
        (
            ["--from", "2024-03-01", "--to", "2024-03-02", "--table", "silver.trade"],
            "silver.trades",
        ),
        (["--from", "2024-03-01", "--to", "2024-03-02", "--exchange", "bitmx"], "bitmex"),
        (["--from", "2024-03-01", "--to", "2024-03-02"], "There is no lake at"),
        (["--from", "2024-03-01"], "--end is required"),
    ],
)
def test_bad_request_is_refused(
    tmp_path: Path, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lake", "rebuild", "--lake", str(tmp_path / "none"), *words], {}) == 2
    assert problem in capsys.readouterr().err
