"""A disk that fills up while tasks write Bronze."""

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.lake.errors import LakeError
from tardis_machine.lake.jobs import Job, JobSettings, Stage
from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.sinks.registry import make_sink
from tests.contract.sinks import make_events

pytestmark = pytest.mark.spark

MAX_FILE_BYTES = 32_768
"""More than Spark writes to a checkpoint, less than a file of Bronze below."""
EVENTS = 5_000


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no process of Spark write more than some bytes to a file, as on a disk that is full."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    _limit_spark(MAX_FILE_BYTES, hard)
    try:
        yield
    finally:
        _limit_spark(hard, hard)


def _limit_spark(soft: int, hard: int) -> None:
    # Later workers of Spark take it over from the JVM.
    for process in psutil.Process().children(recursive=True):
        process.rlimit(psutil.RLIMIT_FSIZE, (soft, hard))


class Ingest:
    """A files bus and the job that reads it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.lake = folder / "lake"
        self._spark = spark
        self._bus = FilesSettings(dir=folder / "bus")

    def publish(self, first: int, count: int) -> None:
        sink = make_sink(self._bus, self._bus.resolve(EventBusSettings(producer_id="tester")))
        sink.open()
        sink.send(make_events(self._bus.router(), count, first=first))
        sink.close(5)

    def run(self) -> None:
        settings = JobSettings(
            spark=SparkSettings(),
            lake=LakeSettings(root=str(self.lake)),
            publishing=PublishingSettings(files=self._bus),
            once=True,
        )
        Job(settings, [Stage.INGEST], print, threading.Event()).run_in(self._spark)

    def files(self) -> set[Path]:
        return set((self.lake / "bronze").rglob("*.parquet"))

    def counts(self) -> str:
        sql = "select count(*), count(distinct (stream, partition, position)) from bronze.events"
        return list(Query(str(self.lake), sql).lines("csv"))[1].strip()


def test_full_disk_commits_nothing_and_the_same_job_goes_on_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    ingest = Ingest(spark, tmp_path)
    ingest.publish(0, 10)
    ingest.run()
    before = ingest.files()
    ingest.publish(10, EVENTS)
    with full_disk(), pytest.raises(LakeError) as failure:
        ingest.run()
    text = str(failure.value)
    assert text.startswith("ingest-files stopped: ")
    assert str(ingest.lake) in text
    assert "File too large" in text
    assert "\n" not in text
    assert ingest.files() == before
    assert ingest.counts() == "10,10"
    ingest.run()
    assert ingest.counts() == f"{EVENTS + 10},{EVENTS + 10}"
