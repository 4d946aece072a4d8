"""Which topics exist, and how missing ones are made.

librdkafka holds records for a topic it does not know and says so late. Looking first costs one
question per topic and keeps missing ones from holding up the others.
"""

import math
import time
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, KafkaException, Producer

from tardis_machine.buses.kafka.client import client_properties
from tardis_machine.buses.kafka.errors import classify
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

ASK_SECONDS = 2.0
"""How long one question may take."""
LOOK_SECONDS = 1.0
"""How long topics that a list of all does not have may be asked for one by one."""
CREATE_SECONDS = 10.0
APPEAR_SECONDS = 0.5
"""How long topics may take that brokers create because we asked for them."""
FEW_TOPICS = 10
"""More are looked up in a list of all topics first."""
_APPEARING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)
_UNKNOWN = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


class Topics:
    """Looks for topics, and creates them where that is wanted."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._ask_seconds = min(ASK_SECONDS, settings.request_timeout_ms / 1000)
        self._folded: dict[str, str] = {}
        self._asked: set[str] = set()
        """Those that had their time to appear."""

    def refusals(self, topics: Collection[str], producer: Producer) -> dict[str, Result]:
        """Say why nothing can be sent to some topics now; the others are there.

        Many missing topics cost hardly more time than one: they get their time to appear together,
        and only once.
        """
        errors = self._look(topics, producer)
        if errors and self._settings.create_topics == "auto":
            errors |= self._create(_appearing(errors))
            self._asked.difference_update(errors)
        new = _appearing(errors) - self._asked
        self._asked |= new
        if new:
            errors = {topic: error for topic, error in errors.items() if topic not in new}
            errors |= self._await(new, producer)
        for topic in topics:
            if topic not in errors:
                self._warn_of_collision(topic)
        return {topic: _refused(error) for topic, error in errors.items()}

    def _look(self, topics: Collection[str], producer: Producer) -> dict[str, KafkaError]:
        """Return what is wrong with topics; those without an entry are there."""
        errors: dict[str, KafkaError] = {}
        left = list(topics)
        deadline = math.inf
        try:
            if len(left) > FEW_TOPICS:
                there = producer.list_topics(timeout=self._ask_seconds).topics
                left = [topic for topic in left if topic not in there or there[topic].error]
                deadline = time.monotonic() + LOOK_SECONDS
            while left:
                # Asked by its name, a topic may be created, and what else is wrong is said.
                error = self._ask(left[0], producer) if time.monotonic() < deadline else _UNKNOWN
                topic = left.pop(0)
                if error is not None:
                    errors[topic] = error
        except KafkaException as failure:
            # Nobody answers: the others need not be asked for.
            return errors | dict.fromkeys(left, failure.args[0])
        return errors

    def _ask(self, topic: str, producer: Producer) -> KafkaError | None:
        error: KafkaError | None = (
            producer.list_topics(topic, self._ask_seconds).topics[topic].error
        )
        return error

    def _await(self, topics: Collection[str], producer: Producer) -> dict[str, KafkaError]:
        """Give topics some time to appear."""
        deadline = time.monotonic() + min(APPEAR_SECONDS, self._ask_seconds)
        while True:
            errors = self._look(topics, producer)
            if not _appearing(errors) or time.monotonic() >= deadline:
                return errors
            producer.poll(0.1)

    def _create(self, topics: Collection[str]) -> dict[str, KafkaError]:
        """Create topics; return why some could not be."""
        # The admin client is a module of its own, and most never need it.
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        settings = self._settings
        made = [
            NewTopic(
                topic,
                num_partitions=settings.topic_partitions,
                replication_factor=settings.topic_replication,
            )
            for topic in topics
        ]
        if not made:
            return {}
        # What it has to say comes as an exception too.
        admin = AdminClient({**client_properties(settings), "log_level": 0})
        errors: dict[str, KafkaError] = {}
        for topic, future in admin.create_topics(made, request_timeout=CREATE_SECONDS).items():
            try:
                future.result()
            except KafkaException as failure:
                if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    errors[topic] = failure.args[0]
            else:
                log.info("topic created", topic=topic, partitions=settings.topic_partitions)
        return errors

    def _warn_of_collision(self, topic: str) -> None:
        """Warn when brokers would count two topics under one metric."""
        twin = self._folded.setdefault(topic.replace(".", "_"), topic)
        if twin != topic:
            log.warning(
                "topic names collide in broker metrics: they differ only in . and _",
                topic=topic,
                other=twin,
            )


def _appearing(errors: Mapping[str, KafkaError]) -> set[str]:
    """Return the topics that may be there in a moment."""
    return {topic for topic, error in errors.items() if error.code() in _APPEARING}


def _refused(error: KafkaError) -> Result:
    """Return the result of events whose topic could not be found or asked for."""
    result = classify(error)
    if result.outcome is not Outcome.AMBIGUOUS:
        return result
    # Nothing has been sent yet.
    return Result(Outcome.TRANSIENT, result.reason, result.detail)
