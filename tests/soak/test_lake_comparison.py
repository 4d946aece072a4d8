"""Two hours of four exchanges, in parts and repeated: the lake equals an own computation."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tardis_machine.lake.query.quality import check_lake
from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.lake.comparison import EXCHANGES, ask, check_gold, check_silver, publish
from tests.lake.conftest import spark  # noqa: F401 - a fixture
from tests.lake.test_comparison import DAY, build

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.timeout(3600)]

PARTS = (("01:20", "02:00"), ("00:00", "00:50"), ("00:40", "01:30"))


async def test_two_hours_in_parts_give_the_lake_of_one_replay(
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cache, bus, root = tmp_path / "cache", tmp_path / "bus", str(tmp_path / "lake")
    simulate(
        SimulatorSettings(out=cache, minutes=120, exchanges=EXCHANGES, rate=10, with_gaps=True)
    )
    publish(cache, bus, (f"{DAY}T00:57", f"{DAY}T01:03"), warm_up=False)
    build(spark, root, bus)
    for start, end in PARTS:
        publish(cache, bus, (f"{DAY}T{start}", f"{DAY}T{end}"))
        build(spark, root, bus)
    files = await ask(cache, tmp_path, DAY, f"{DAY}T02:00")
    events, windows = check_silver(root, files), check_gold(root, files)
    assert not [finding for finding in check_lake(root) if finding.is_error]
    with capsys.disabled():
        print(f"\n{events:,} events of Silver and {windows:,} rows of Gold are equal")  # noqa: T201
