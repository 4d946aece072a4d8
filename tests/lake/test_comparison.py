"""However the minutes came, the lake has what an independent computation makes of one replay."""

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.lake.jobs import ALL, Job, JobSettings
from tardis_machine.lake.query.quality import check_lake
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.lake.comparison import EXCHANGES, ask, check_gold, check_silver, publish

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

DAY = "2024-03-01"


def build(spark: SparkSession, root: str, bus: Path) -> None:
    settings = JobSettings(
        spark=SparkSettings(),
        lake=LakeSettings(root=root),
        publishing=PublishingSettings(files=FilesSettings(dir=bus)),
        once=True,
    )
    Job(settings, ALL, lambda _: None, threading.Event()).run_in(spark)


async def test_replays_in_parts_in_disorder_and_repeated_give_the_lake_of_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    cache, bus, root = tmp_path / "cache", tmp_path / "bus", str(tmp_path / "lake")
    simulate(
        SimulatorSettings(out=cache, minutes=3, exchanges=EXCHANGES, rate=2, seed=3, with_gaps=True)
    )
    # One that lacks what came before comes first.
    publish(cache, bus, (f"{DAY}T00:01", f"{DAY}T00:03"), warm_up=False)
    build(spark, root, bus)
    parts = (("00:02", "00:03"), ("00:00", "00:01"), ("00:01", "00:03"))
    publish(cache, bus, *((f"{DAY}T{start}", f"{DAY}T{end}") for start, end in parts))
    build(spark, root, bus)
    files = await ask(cache, tmp_path, DAY, f"{DAY}T00:03")
    assert check_silver(root, files) > 1000
    assert check_gold(root, files) > 1000
    assert not [finding for finding in check_lake(root) if finding.is_error]
