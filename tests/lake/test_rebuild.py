"""`lake rebuild`: a corrected replay shows, and nothing else changes."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tardis_machine.bronze.content import Content
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.cli import main
from tardis_machine.lake.errors import LakeError
from tardis_machine.lake.jobs import JobSettings
from tardis_machine.lake.query.quality import check_lake
from tardis_machine.lake.rebuild import Rebuild, RebuildRange
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.lake.store.times import Times
from tardis_machine.lake.tables.bronze import EVENTS
from tardis_machine.lake.tables.silver import LIQUIDATIONS, TRADES
from tests.lake.events import INGEST_US, NOON_US, SECOND_US, encoded, liquidation, trade
from tests.lake.lakes import Lake

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
