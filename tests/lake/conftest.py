"""What all tests of the lake share: one Spark session per run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tardis_machine.lake.settings import SparkSettings
from tardis_machine.lake.spark.session import open_session
from tests.lake.events import encoded, of_every_case
from tests.lake.lakes import Lake

ROOT = "a lake"
"""With a blank, so that every test shows that paths are not taken for URLs."""
FEW_TASKS = {
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""A sixth less CPU for tables of a few rows; what commands start has as many tasks as cores."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one local Spark session for the run."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    settings = SparkSettings(master="local[2]", conf=FEW_TASKS)
    with open_session(settings, profile="quick", log_path=log) as session:
        yield session


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """Return an empty lake."""
    return Lake(spark, tmp_path / ROOT)


@pytest.fixture(scope="session")
def full_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake with rows in every table but quarantine; for reading only."""
    lake = Lake(spark, tmp_path_factory.mktemp("full") / "lake")
    records = [record for records in of_every_case().values() for record in records]
    lake.deliver(encoded(records))
    lake.build()
    return lake
