"""What errors of librdkafka mean."""

import pytest
from confluent_kafka import KafkaError

from tardis_machine.buses.kafka.errors import classify
from tardis_machine.buses.results import Outcome


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, Outcome.BAD_RECORD),
        (KafkaError.INVALID_RECORD, Outcome.BAD_RECORD),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Outcome.BAD_DESTINATION),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, Outcome.BAD_DESTINATION),
        (KafkaError.TOPIC_EXCEPTION, Outcome.BAD_DESTINATION),
        (KafkaError.POLICY_VIOLATION, Outcome.BAD_DESTINATION),
        (KafkaError._UNKNOWN_TOPIC, Outcome.BAD_DESTINATION),
        (KafkaError.THROTTLING_QUOTA_EXCEEDED, Outcome.TRANSIENT),
        (KafkaError.INVALID_PRODUCER_EPOCH, Outcome.TRANSIENT),
        (KafkaError.PRODUCER_FENCED, Outcome.TRANSIENT),
        (KafkaError.KAFKA_STORAGE_ERROR, Outcome.TRANSIENT),
        (KafkaError._PURGE_QUEUE, Outcome.TRANSIENT),
        (KafkaError._PURGE_INFLIGHT, Outcome.AMBIGUOUS),
        (KafkaError._MSG_TIMED_OUT, Outcome.AMBIGUOUS),
        (KafkaError._FATAL, Outcome.CLIENT_LOST),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, Outcome.CLIENT_LOST),
    ],
)
def test_error_is_classified_by_its_code(code: int, outcome: Outcome) -> None:
    assert classify(KafkaError(code)).outcome is outcome


def test_fatal_error_loses_the_client_whatever_its_code() -> None:
    error = KafkaError(KafkaError.UNKNOWN_PRODUCER_ID, "gone", fatal=True)
    assert classify(error).outcome is Outcome.CLIENT_LOST


def test_throttled_events_rest_at_least_a_second() -> None:
    assert classify(KafkaError(KafkaError.THROTTLING_QUOTA_EXCEEDED)).retry_after_seconds >= 1
