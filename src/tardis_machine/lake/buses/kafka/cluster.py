"""Ask Kafka for the ids of cluster and topics, with the Java client that Spark reads with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.kafka.reader import CLIENT, reader_options
from tardis_machine.lake.buses.names import StreamNames
from tardis_machine.lake.errors import BusUnavailableError

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Brokers before version 2.8 give topics no ids."""


class Cluster:
    """A Kafka cluster, as far as it tells who it is."""

    def __init__(self, spark: SparkSession, settings: KafkaSettings) -> None:
        self._jvm: Any = spark._jvm
        self._settings = settings

    def ids(self) -> tuple[str, dict[str, str]]:
        """Return the id of the cluster, and those of the topics that the settings name."""
        with self._admin() as admin:
            cluster = str(admin.describeCluster().clusterId().get())
            wanted = StreamNames.of(self._settings.destinations)
            names = [name for name in admin.listTopics().names().get() if wanted.match(name)]
            topics = admin.describeTopics(self._list(names)).allTopicNames().get()
            ids = {name: topics[name].topicId().toString() for name in names}
        return cluster, {name: id_ for name, id_ in ids.items() if id_ != NO_TOPIC_ID}

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        options = self._jvm.java.util.Properties()
        for name, value in reader_options(self._settings, ReadPolicy()).items():
            if name.startswith(CLIENT):
                options.setProperty(name.removeprefix(CLIENT), value)
        try:
            admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(options)
            try:
                yield admin
            finally:
                admin.close()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise BusUnavailableError(f"Kafka is unavailable: {cause.getMessage()}") from error

    def _list(self, names: list[str]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for name in names:
            found.add(name)
        return found
