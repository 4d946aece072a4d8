"""Why events fail, become dead letters or are lost: one list for logs, metrics and files."""

from enum import StrEnum, unique
from typing import Self


@unique
class Reason(StrEnum):
    """Values of the label `reason`; the same failure has the same reason on every bus."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """Make a member of its value and what the documents say about it."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    NONE = "", "Nothing failed."

    # The event.
    TOO_LARGE = "too_large", "The event exceeds the size limit of the bus."
    SUBJECT_TOO_LONG = "subject_too_long", "The subject exceeds the length limit of NATS."
    INVALID_RECORD = "invalid_record", "The bus rejected the content of the event."
    INVALID_TIMESTAMP = "invalid_timestamp", "The brokers rejected the timestamp of the record."
    REFUSED_WITH_BATCH = "refused_with_batch", "Another event of the same batch was rejected."
    CALL_TOO_LARGE = (
        "call_too_large",
        "The request was too large; its events are sent in smaller requests.",
    )

    # The destination.
    NO_DESTINATION = "no_destination", "The topic, subject, stream or hub does not exist."
    INVALID_DESTINATION = "invalid_destination", "The name of the destination is invalid."
    WRONG_STREAM = "wrong_stream", "The subject belongs to another stream than nats-stream."
    STREAM_FULL = "stream_full", "The stream is at its limit and rejects new events."
    STREAM_SEALED = "stream_sealed", "The stream is sealed."
    NOT_A_STREAM = "not_a_stream", "The Redis key is not a stream."
    HUB_DISABLED = "hub_disabled", "The event hub is disabled."
    JETSTREAM_DISABLED = "jetstream_disabled", "JetStream is not enabled for the account."
    NOT_AUTHENTICATED = "not_authenticated", "Authentication failed."
    NOT_AUTHORIZED = "not_authorized", "No permission to publish to the destination."
    NOT_ALLOWED = "not_allowed", "The service does not allow the operation."
    POLICY_VIOLATION = "policy_violation", "A policy of the brokers rejected the record."
    INVALID_ACKS = "invalid_acks", "The brokers do not support the required acks."
    UNSUPPORTED = "unsupported", "The topic does not support the message format or compression."
    ENCRYPTION = "encryption", "The KMS key of the stream cannot be used."
    SCHEMA_REGISTRY = "schema_registry", "The schema could not be registered or found."
    REFUSED = "refused", "The bus rejected the event for another reason; see the log."

    # The connection and the client.
    UNREACHABLE = "unreachable", "Connection failed; nothing was sent."
    CONNECTION_LOST = "connection_lost", "The connection was lost before the acknowledgement."
    TIMEOUT = "timeout", "Timeout waiting for the acknowledgement."
    UNREADABLE_ACK = "unreadable_ack", "The acknowledgement could not be parsed."
    EXPIRED_TOKEN = "expired_token", "The credentials expired; they are renewed."
    CLOSED = "closed", "The client is closed."
    CLIENT_FAILED = "client_failed", "The client raised an unexpected error."
    FATAL_ERROR = "fatal_error", "The producer had a fatal error and is recreated."
    QUEUE_FULL = "queue_full", "The send buffer of the client library is full."
    NOT_SENT = "not_sent", "The event was not sent."
    HELD_BACK = "held_back", "An earlier event of the same key or destination failed."

    # The servers.
    THROTTLED = "throttled", "A rate limit was reached."
    UNAVAILABLE = "unavailable", "The server is temporarily unavailable."
    INTERNAL_ERROR = "internal_error", "The service had an internal error."
    SERVICE_TIMEOUT = "service_timeout", "The service reported a timeout."
    BROKER_ERROR = "broker_error", "Another broker error; see the log."
    CANCELLED = "cancelled", "The service cancelled the operation."
    DETACHED = "detached", "The service detached the link."
    NO_LEADER = "no_leader", "The partition or stream has no leader, or is electing one."
    TOO_FEW_REPLICAS = "too_few_replicas", "Too few replicas stored the event."
    OUT_OF_ORDER = "out_of_order", "The preceding event is missing in the stream."
    IN_PROCESS = "in_process", "An earlier attempt is still being stored."
    OUT_OF_MEMORY = "out_of_memory", "The server is out of memory."
    MEMORY_HIGH_WATER = (
        "memory_high_water",
        "The server uses more memory than redis-memory-high-water allows.",
    )
    LOADING = "loading", "The server is loading its dataset."
    BUSY = "busy", "The server is running a script."
    CANNOT_PERSIST = "cannot_persist", "The server cannot write to its disk."
    READ_ONLY = "read_only", "The server is a read-only replica."
    MASTER_DOWN = "master_down", "The replica lost the connection to its master."
    CLUSTER_DOWN = "cluster_down", "The cluster does not serve the hash slot."
    MOVED = "moved", "The hash slot moved to another server."
    TRY_AGAIN = "try_again", "The hash slot is being migrated."
    ABORTED = "aborted", "The transaction was aborted."
    TOO_MANY_CLIENTS = "too_many_clients", "The server reached its connection limit."
    ENTRY_ID_NOT_NEWER = "entry_id_not_newer", "The entry id is not greater than the newest one."
    ENTRY_ID_BEHIND = "entry_id_behind", "Another producer writes to the stream."

    # The disk, for the files bus.
    LOCKED = "locked", "Another process has locked the files."
    DISK = "disk", "Writing to disk failed."

    # Events given up or lost by this process.
    RETRIES_EXHAUSTED = "retries_exhausted", "The limit of attempts or of age was reached."
    BAD_RECORD = "bad_record", "The bus can never store the event."
    OVERFLOW = "overflow", "The backlog of the bus was at its bound."
    PARKED_FULL = (
        "parked_full",
        "Events that wait for missing or refused destinations reached parked-max-bytes.",
    )
    NOT_WRITTEN = "not_written", "The log could not be written: the disk was full or failed."
    UNENCODABLE = "unencodable", "The record could not be encoded as an envelope."
    UNREADABLE = "unreadable", "A line of the log could not be decoded."
    DEAD_LETTER_FAILED = "dead_letter_failed", "The dead letter could not be written."
    DEAD_LETTER_OVERFLOW = (
        "dead_letter_overflow",
        "Deleted from the dead-letter files to stay within dead-letter-max-bytes.",
    )
