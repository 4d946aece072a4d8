"""A bus that let go of events: a job stops and says so, or counts them and goes on."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tardis_machine.buses.files.log import segments
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.lake.errors import DataLossError
from tardis_machine.lake.jobs import Job, JobSettings, Stage
from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.sinks.registry import make_sink
from tests.contract.sinks import make_events
from tests.servers.kafka import Kafka

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ADMIN_SECONDS = 240


@dataclass(frozen=True)
class Trimmed:
    """A bus, and how it lets go of everything it holds."""

    publishing: PublishingSettings
    trim: Callable[[], object]

    def publish(self, first: int, count: int) -> None:
        (bus,) = self.publishing.active
        sink = make_sink(bus, bus.resolve(EventBusSettings(producer_id="tester")))
        sink.open()
        sink.send(make_events(bus.router(), count, first=first))
        sink.close(5)


def run(spark: SparkSession, bus: Trimmed, root: Path, *, fails: bool = True) -> Sequence[str]:
    """Ingest what there is, and return what was said."""
    said: list[str] = []
    settings = JobSettings(
        spark=SparkSettings(),
        lake=LakeSettings(root=str(root), fail_on_data_loss=fails),
        publishing=bus.publishing,
        once=True,
    )
    Job(settings, (Stage.INGEST,), said.append, threading.Event()).run_in(spark)
    return said


class LossContract:
    """What holds for every bus that can let go of events (fixture `bus`)."""

    def test_lost_events_stop_the_job_or_are_counted(
        self, bus: Trimmed, spark: SparkSession, tmp_path: Path
    ) -> None:
        bus.publish(0, 5)
        run(spark, bus, tmp_path)
        bus.publish(5, 10)
        bus.trim()
        bus.publish(15, 3)
        with pytest.raises(
            DataLossError, match=r"(deleted at least|no longer holds).*--fail-on-data-loss false"
        ) as e:
            run(spark, bus, tmp_path)
        assert "\n" not in str(e.value)
        said = run(spark, bus, tmp_path, fails=False)
        assert "events lost" in said[-1]
        query = Query(str(tmp_path), "select count(*) from bronze.events")
        assert list(query.lines("csv"))[1:] == ["8\n"]


class TestFiles(LossContract):
    @pytest.fixture
    def bus(self, tmp_path: Path) -> Trimmed:
        folder = tmp_path / "bus"

        def trim() -> None:
            for segment in segments(folder / "bronze"):
                segment.path.unlink()

        return Trimmed(PublishingSettings(files=FilesSettings(dir=folder)), trim)


class TestKafka(LossContract):
    @pytest.fixture
    def bus(self, kafka: Kafka, kafka_topic: str) -> Trimmed:
        def trim() -> None:
            admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
            whole = TopicPartition(kafka_topic, 0, 15)
            admin.delete_records([whole])[whole].result(ADMIN_SECONDS)

        settings = KafkaSettings(brokers=(kafka.address,), topic=kafka_topic)
        return Trimmed(PublishingSettings(kafka=settings), trim)
