"""What the errors of librdkafka mean for an event."""

from confluent_kafka import KafkaError

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result

_MEANINGS = {
    KafkaError.MSG_SIZE_TOO_LARGE: (Outcome.BAD_RECORD, Reason.TOO_LARGE),
    KafkaError.INVALID_MSG_SIZE: (Outcome.BAD_RECORD, Reason.TOO_LARGE),
    KafkaError.INVALID_RECORD: (Outcome.BAD_RECORD, Reason.INVALID_RECORD),
    KafkaError.INVALID_TIMESTAMP: (Outcome.BAD_RECORD, Reason.INVALID_TIMESTAMP),
    KafkaError._UNKNOWN_TOPIC: (Outcome.BAD_DESTINATION, Reason.NO_DESTINATION),
    KafkaError._UNKNOWN_PARTITION: (Outcome.BAD_DESTINATION, Reason.NO_DESTINATION),
    KafkaError.UNKNOWN_TOPIC_OR_PART: (Outcome.BAD_DESTINATION, Reason.NO_DESTINATION),
    KafkaError.TOPIC_EXCEPTION: (Outcome.BAD_DESTINATION, Reason.INVALID_DESTINATION),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (Outcome.BAD_DESTINATION, Reason.NOT_AUTHORIZED),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (Outcome.BAD_DESTINATION, Reason.NOT_AUTHORIZED),
    KafkaError.SASL_AUTHENTICATION_FAILED: (Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED),
    KafkaError._AUTHENTICATION: (Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED),
    KafkaError.POLICY_VIOLATION: (Outcome.BAD_DESTINATION, Reason.POLICY_VIOLATION),
    KafkaError.INVALID_REQUIRED_ACKS: (Outcome.BAD_DESTINATION, Reason.INVALID_ACKS),
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: (Outcome.BAD_DESTINATION, Reason.UNSUPPORTED),
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: (Outcome.BAD_DESTINATION, Reason.UNSUPPORTED),
    KafkaError.THROTTLING_QUOTA_EXCEEDED: (Outcome.TRANSIENT, Reason.THROTTLED),
    KafkaError._PURGE_QUEUE: (Outcome.TRANSIENT, Reason.NOT_SENT),
    # The broker rejected the batch because of another record.
    KafkaError._INVALID_DIFFERENT_RECORD: (Outcome.TRANSIENT, Reason.REFUSED_WITH_BATCH),
    KafkaError._FATAL: (Outcome.CLIENT_LOST, Reason.FATAL_ERROR),
    KafkaError._DESTROY: (Outcome.CLIENT_LOST, Reason.FATAL_ERROR),
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER: (Outcome.CLIENT_LOST, Reason.FATAL_ERROR),
}
_REASONS = {
    KafkaError.LEADER_NOT_AVAILABLE: Reason.NO_LEADER,
    KafkaError.NOT_LEADER_FOR_PARTITION: Reason.NO_LEADER,
    KafkaError.NOT_ENOUGH_REPLICAS: Reason.TOO_FEW_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Reason.TOO_FEW_REPLICAS,
    KafkaError.REQUEST_TIMED_OUT: Reason.TIMEOUT,
    KafkaError._MSG_TIMED_OUT: Reason.TIMEOUT,
    KafkaError._TIMED_OUT: Reason.TIMEOUT,
    KafkaError._TRANSPORT: Reason.CONNECTION_LOST,
    KafkaError._ALL_BROKERS_DOWN: Reason.UNREACHABLE,
}
"""Reasons of errors whose outcome depends on whether a broker or the client reported them."""
_RETRY_SECONDS = {Reason.THROTTLED: 1.0}


def classify(error: KafkaError) -> Result:
    """Return what an error means for its event; by code, because `retriable()` is often wrong."""
    code = error.code()
    # A broker that reports an error has not appended the batch; otherwise it is unknown.
    other = Outcome.TRANSIENT if code > 0 else Outcome.AMBIGUOUS
    outcome, reason = _MEANINGS.get(code, (other, _REASONS.get(code, Reason.BROKER_ERROR)))
    if error.fatal():
        outcome, reason = Outcome.CLIENT_LOST, Reason.FATAL_ERROR
    detail = f"{error.name()}: {error.str()}"
    return Result(outcome, reason, detail, _RETRY_SECONDS.get(reason, 0.0))
