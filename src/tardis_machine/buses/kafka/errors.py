"""What the errors of librdkafka mean for an event."""

from confluent_kafka import KafkaError

from tardis_machine.buses.results import Outcome, Result

NOT_AUTHENTICATED = "not_authenticated"
"""The reason when brokers do not take our login, whatever the topic."""

_MEANINGS = {
    KafkaError.MSG_SIZE_TOO_LARGE: (Outcome.BAD_RECORD, "too_large"),
    KafkaError.INVALID_MSG_SIZE: (Outcome.BAD_RECORD, "too_large"),
    KafkaError.INVALID_RECORD: (Outcome.BAD_RECORD, "invalid_record"),
    KafkaError.INVALID_TIMESTAMP: (Outcome.BAD_RECORD, "invalid_timestamp"),
    KafkaError._UNKNOWN_TOPIC: (Outcome.BAD_TARGET, "unknown_topic"),
    KafkaError._UNKNOWN_PARTITION: (Outcome.BAD_TARGET, "unknown_topic"),
    KafkaError.UNKNOWN_TOPIC_OR_PART: (Outcome.BAD_TARGET, "unknown_topic"),
    KafkaError.TOPIC_EXCEPTION: (Outcome.BAD_TARGET, "invalid_topic"),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (Outcome.BAD_TARGET, "not_authorized"),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (Outcome.BAD_TARGET, "not_authorized"),
    KafkaError.SASL_AUTHENTICATION_FAILED: (Outcome.BAD_TARGET, NOT_AUTHENTICATED),
    KafkaError._AUTHENTICATION: (Outcome.BAD_TARGET, NOT_AUTHENTICATED),
    KafkaError.POLICY_VIOLATION: (Outcome.BAD_TARGET, "policy_violation"),
    KafkaError.INVALID_REQUIRED_ACKS: (Outcome.BAD_TARGET, "invalid_acks"),
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: (Outcome.BAD_TARGET, "unsupported"),
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: (Outcome.BAD_TARGET, "unsupported"),
    KafkaError.THROTTLING_QUOTA_EXCEEDED: (Outcome.TRANSIENT, "throttled"),
    KafkaError._PURGE_QUEUE: (Outcome.TRANSIENT, "not_sent"),
    # The broker refused the batch because of a neighbour.
    KafkaError._INVALID_DIFFERENT_RECORD: (Outcome.TRANSIENT, "refused_with_batch"),
    KafkaError._FATAL: (Outcome.CLIENT_LOST, "fatal_error"),
    KafkaError._DESTROY: (Outcome.CLIENT_LOST, "fatal_error"),
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER: (Outcome.CLIENT_LOST, "fatal_error"),
}
_RETRY_SECONDS = {"throttled": 1.0}


def classify(error: KafkaError) -> Result:
    """Return what an error means for its event; by code, because `retriable()` is often wrong."""
    code = error.code()
    # A broker that answers with an error has not appended the batch; otherwise nobody knows.
    other = Outcome.TRANSIENT if code > 0 else Outcome.AMBIGUOUS
    outcome, reason = _MEANINGS.get(code, (other, error.name().lower().lstrip("_")))
    if error.fatal():
        outcome, reason = Outcome.CLIENT_LOST, "fatal_error"
    return Result(outcome, reason, error.str(), _RETRY_SECONDS.get(reason, 0.0))
