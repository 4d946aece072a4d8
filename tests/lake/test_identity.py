"""Buses of one kind are told apart, and so are streams that took the place of others."""

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.lake.errors import DataLossError
from tardis_machine.lake.jobs import Job, JobSettings, Stage
from tardis_machine.lake.query.inventory import list_tables
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.sinks.registry import make_sink
from tests.contract.sinks import make_events, wait_until
from tests.servers.kafka import Kafka

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ADMIN_SECONDS = 240


def publish(bus: BusSettings, first: int, count: int) -> None:
    sink = make_sink(bus, bus.resolve(EventBusSettings(producer_id="tester")))
    sink.open()
    sink.send(make_events(bus.router(), count, first=first))
    sink.close(5)


def ingest(
    spark: SparkSession, publishing: PublishingSettings, root: Path, *, fails: bool = True
) -> int:
    """Ingest what there is, and return the rows of Bronze."""
    lake = LakeSettings(root=str(root), fail_on_data_loss=fails)
    settings = JobSettings(spark=SparkSettings(), lake=lake, publishing=publishing, once=True)
    said: list[str] = []
    Job(settings, (Stage.INGEST,), said.append, threading.Event()).run_in(spark)
    (bronze,) = list_tables(str(root))
    return bronze.rows


def test_second_bus_of_a_kind_is_read_from_its_start(spark: SparkSession, tmp_path: Path) -> None:
    one, other = (FilesSettings(dir=tmp_path / name) for name in ("one", "other"))
    root = tmp_path / "lake"
    publish(one, 0, 7)
    publish(other, 7, 5)
    assert ingest(spark, PublishingSettings(files=one), root) == 7
    assert ingest(spark, PublishingSettings(files=other), root) == 12
    publish(one, 12, 2)
    # Moved, it is still the same.
    moved = FilesSettings(dir=tmp_path / "moved")
    shutil.move(tmp_path / "one", tmp_path / "moved")
    assert ingest(spark, PublishingSettings(files=moved), root) == 14
    names: Sequence[str] = sorted(path.name for path in (root / "_checkpoints").iterdir())
    assert len(names) == 2
    assert all(name.startswith("ingest-files-") for name in names)


def test_topic_made_anew_is_noticed_however_long_it_is(
    spark: SparkSession, kafka: Kafka, kafka_topic: str, tmp_path: Path
) -> None:
    settings = KafkaSettings(brokers=(kafka.address,), topic=kafka_topic)
    publishing = PublishingSettings(kafka=settings)
    publish(settings, 0, 5)
    assert ingest(spark, publishing, tmp_path) == 5
    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    admin.delete_topics([kafka_topic])[kafka_topic].result(ADMIN_SECONDS)
    wait_until(lambda: kafka_topic not in admin.list_topics().topics, "the end of the topic")
    admin.create_topics([NewTopic(kafka_topic, 1)])[kafka_topic].result(ADMIN_SECONDS)
    publish(settings, 5, 9)
    with pytest.raises(DataLossError, match=r"deleted and recreated.*--fail-on-data-loss false"):
        ingest(spark, publishing, tmp_path)
    assert ingest(spark, publishing, tmp_path, fails=False) == 14
    assert ingest(spark, publishing, tmp_path) == 14
