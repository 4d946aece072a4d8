"""Jobs that go on until they are stopped."""

import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.lake.errors import LakeError
from tardis_machine.lake.jobs import ALL, Job, JobSettings, Stage
from tardis_machine.lake.query.inventory import list_tables
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.sinks.registry import make_sink
from tests.contract.sinks import make_events
from tests.servers.ports import free_port

pytestmark = pytest.mark.spark

DEADLINE_SECONDS = 600


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    """Wait for something that takes Spark a while."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


class Running:
    """A job over a files bus, in a thread."""

    def __init__(self, spark: SparkSession, folder: Path, *stages: Stage) -> None:
        self.root = folder / "lake"
        self.port = free_port()
        self.bus = FilesSettings(dir=folder / "bus")
        self.said: list[str] = []
        self._stop = threading.Event()
        settings = JobSettings(
            spark=SparkSettings(),
            lake=LakeSettings(root=str(self.root), trigger_seconds=0.5),
            publishing=PublishingSettings(files=self.bus),
            metrics_port=self.port,
        )
        job = Job(settings, stages, self.said.append, self._stop)
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(lambda: job.run_in(spark),))

    def _run(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            self.error = error

    def publish(self, first: int, count: int) -> None:
        sink = make_sink(self.bus, self.bus.resolve(EventBusSettings(producer_id="tester")))
        sink.open()
        sink.send(make_events(self.bus.router(), count, first=first))
        sink.close(5)

    def start(self) -> None:
        self._thread.start()

    def rows(self, table: str) -> int:
        found = {state.name: state.rows for state in list_tables(str(self.root))}
        return found.get(table, 0)

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            text: str = answer.read().decode()
        return text

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def test_job_goes_on_until_it_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    job = Running(spark, tmp_path, *ALL)
    job.publish(0, 10)
    job.start()
    try:
        wait_until(lambda: job.rows("gold.bars") > 0, "the first bars")
        job.publish(10, 20)
        wait_until(lambda: job.rows("silver.trades") == 30, "the second trades")
        assert 'rows_total{query="ingest-files"} 30.0' in job.metrics()
    finally:
        job.end()
    assert job.error is None
    assert any(text.startswith("ingest-files: 30 rows in ") for text in job.said)


def test_kill_in_the_first_write_does_not_keep_a_query_from_starting(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Running(spark, tmp_path, Stage.INGEST)
    job.publish(0, 10)
    offsets = job.root / "_checkpoints" / "ingest-files" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.11111111-2222-3333-4444-555555555555.tmp").touch()
    job.start()
    try:
        wait_until(lambda: job.error is not None or job.rows("bronze.events") == 10, "the events")
    finally:
        job.end()
    assert job.error is None


def test_failure_outside_of_a_query_has_a_text_when_spark_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "lake").touch()
    job = Running(spark, tmp_path, Stage.REFINE)
    job.start()
    job.end()
    assert isinstance(job.error, LakeError)
    assert "\n" not in str(job.error)
    assert str(tmp_path / "lake") in str(job.error)


def test_query_that_ends_by_itself_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    job = Running(spark, tmp_path, Stage.INGEST)
    job.publish(0, 10)
    job.start()
    try:
        wait_until(lambda: job.rows("bronze.events") == 10, "the first events")
        (tmp_path / "bus").rename(tmp_path / "away")
        wait_until(lambda: job.error is not None, "the end of the job")
    finally:
        job.end()
    assert isinstance(job.error, LakeError)
    assert "There is no files bus at" in str(job.error)
