"""Which topics exist, and how missing ones are made.

librdkafka holds records for a topic it does not know and says so late. Looking first costs one
question per topic and keeps a missing one from holding up the others.
"""

import time

from confluent_kafka import KafkaError, KafkaException, Producer

from tardis_machine.buses.kafka.client import client_properties
from tardis_machine.buses.kafka.errors import classify
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

ASK_SECONDS = 2.0
CREATE_SECONDS = 10.0
APPEAR_SECONDS = 0.5
"""How long a topic may take that brokers create because we asked for it."""
_APPEARING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)


class Topics:
    """Looks for topics, and creates them where that is wanted."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._ask_seconds = min(ASK_SECONDS, settings.request_timeout_ms / 1000)
        self._folded: dict[str, str] = {}

    def refusal(self, topic: str, producer: Producer) -> Result | None:
        """Say why nothing can be sent to a topic now; None when it is there."""
        is_creatable = self._settings.create_topics == "auto"
        try:
            error = self._look(topic, producer, 0.0 if is_creatable else APPEAR_SECONDS)
            if error is not None and is_creatable and error.code() in _APPEARING:
                self._create(topic)
                error = self._look(topic, producer, APPEAR_SECONDS)
        except KafkaException as failure:
            return _refused(failure.args[0])
        if error is not None:
            return _refused(error)
        self._warn_of_collision(topic)
        return None

    def _look(self, topic: str, producer: Producer, seconds: float) -> KafkaError | None:
        """Return what is wrong with a topic, giving it some time to appear."""
        deadline = time.monotonic() + min(seconds, self._ask_seconds)
        while True:
            found = producer.list_topics(topic, self._ask_seconds).topics[topic]
            error: KafkaError | None = found.error
            is_over = time.monotonic() >= deadline
            if error is None or is_over or error.code() not in _APPEARING:
                return error
            producer.poll(0.1)

    def _create(self, topic: str) -> None:
        # The admin client is a module of its own, and most never need it.
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        settings = self._settings
        made = NewTopic(
            topic,
            num_partitions=settings.topic_partitions,
            replication_factor=settings.topic_replication,
        )
        # What it has to say comes as an exception too.
        admin = AdminClient({**client_properties(settings), "log_level": 0})
        try:
            admin.create_topics([made], request_timeout=CREATE_SECONDS)[topic].result()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        else:
            log.info("topic created", topic=topic, partitions=settings.topic_partitions)

    def _warn_of_collision(self, topic: str) -> None:
        """Warn when brokers would count two topics under one metric."""
        twin = self._folded.setdefault(topic.replace(".", "_"), topic)
        if twin != topic:
            log.warning(
                "topic names collide in broker metrics: they differ only in . and _",
                topic=topic,
                other=twin,
            )


def _refused(error: KafkaError) -> Result:
    """Return the result of events whose topic could not be found or asked for."""
    result = classify(error)
    if result.outcome is not Outcome.AMBIGUOUS:
        return result
    # Nothing has been sent yet.
    return Result(Outcome.TRANSIENT, result.reason, result.detail)
