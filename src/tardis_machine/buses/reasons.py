"""Why events fail, are given up or are lost: one list for logs, metrics and dead letters."""

from enum import StrEnum, unique
from typing import Self


@unique
class Reason(StrEnum):
    """Values of the label `reason`; the same fault has the same reason on every bus."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """Make a member of its value and what the documents say about it."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    NONE = "", "Nothing failed."

    # The event.
    TOO_LARGE = "too_large", "The event is larger than the bus takes."
    SUBJECT_TOO_LONG = "subject_too_long", "The subject is longer than NATS takes."
    INVALID_RECORD = "invalid_record", "The bus refuses the content of the event."
    INVALID_TIMESTAMP = "invalid_timestamp", "The brokers refuse the time of the record."
    REFUSED_WITH_BATCH = "refused_with_batch", "Another event of the batch was refused."
    CALL_TOO_LARGE = "call_too_large", "The call was too large; its events go in smaller ones."

    # The destination.
    NO_DESTINATION = "no_destination", "The topic, subject, stream or hub does not exist."
    INVALID_DESTINATION = "invalid_destination", "The name of the destination is not valid."
    WRONG_STREAM = "wrong_stream", "Another stream than the one required takes the subject."
    STREAM_FULL = "stream_full", "The stream is at its limit and refuses new events."
    STREAM_SEALED = "stream_sealed", "The stream is sealed."
    NOT_A_STREAM = "not_a_stream", "The key holds something other than a stream."
    HUB_DISABLED = "hub_disabled", "The hub is disabled."
    JETSTREAM_DISABLED = "jetstream_disabled", "JetStream is not enabled for the account."
    NOT_AUTHENTICATED = "not_authenticated", "The login was refused."
    NOT_AUTHORIZED = "not_authorized", "The login has no permission to publish there."
    NOT_ALLOWED = "not_allowed", "The service does not allow the operation."
    POLICY_VIOLATION = "policy_violation", "A policy of the brokers forbids the record."
    INVALID_ACKS = "invalid_acks", "The brokers do not know the acknowledgements asked for."
    UNSUPPORTED = "unsupported", "The topic does not support the format or compression."
    ENCRYPTION = "encryption", "The key that encrypts the stream cannot be used."
    SCHEMA_REGISTRY = "schema_registry", "The schema could not be registered or found."
    REFUSED = "refused", "The bus refused the event for another reason; see the log."

    # The connection and the client.
    UNREACHABLE = "unreachable", "No connection could be made; nothing was sent."
    CONNECTION_LOST = "connection_lost", "The connection ended before the acknowledgement."
    TIMEOUT = "timeout", "No acknowledgement came in time."
    UNREADABLE_ACK = "unreadable_ack", "The acknowledgement could not be read."
    EXPIRED_TOKEN = "expired_token", "The credentials have expired and are renewed."
    CLOSED = "closed", "The client is closed."
    CLIENT_FAILED = "client_failed", "The client raised an unexpected error."
    FATAL_ERROR = "fatal_error", "The producer is in a fatal state and is replaced."
    QUEUE_FULL = "queue_full", "The queue of the client is full."
    NOT_SENT = "not_sent", "The event was not handed over."
    HELD_BACK = "held_back", "An earlier event of the same key or destination failed."

    # The servers.
    THROTTLED = "throttled", "A rate limit was reached."
    UNAVAILABLE = "unavailable", "The servers cannot take the event now."
    INTERNAL_ERROR = "internal_error", "The service had an internal error."
    SERVICE_TIMEOUT = "service_timeout", "The service gave up on the batch in time."
    BROKER_ERROR = "broker_error", "Another error of the brokers; its name is in the log."
    CANCELLED = "cancelled", "The service cancelled the operation."
    DETACHED = "detached", "The service detached the link."
    NO_LEADER = "no_leader", "The partition or stream is changing its leader."
    TOO_FEW_REPLICAS = "too_few_replicas", "Too few replicas have the event."
    OUT_OF_ORDER = "out_of_order", "The event before it is missing in the stream."
    IN_PROCESS = "in_process", "The first copy of the event is being stored."
    OUT_OF_MEMORY = "out_of_memory", "The server has no memory left."
    MEMORY_HIGH_WATER = "memory_high_water", "The server uses more memory than the settings allow."
    LOADING = "loading", "The server is loading its data."
    BUSY = "busy", "The server is running a script."
    CANNOT_PERSIST = "cannot_persist", "The server cannot write to its disk."
    READ_ONLY = "read_only", "The server is a replica."
    MASTER_DOWN = "master_down", "The replica has lost its master."
    CLUSTER_DOWN = "cluster_down", "The cluster does not serve the hash slot."
    MOVED = "moved", "The hash slot is at another server."
    TRY_AGAIN = "try_again", "The hash slot is being moved."
    ABORTED = "aborted", "The transaction was aborted."
    TOO_MANY_CLIENTS = "too_many_clients", "The server takes no more connections."
    ENTRY_ID_NOT_NEWER = "entry_id_not_newer", "The entry id is not above the newest one."
    ENTRY_ID_BEHIND = "entry_id_behind", "Another producer writes to the stream."

    # The disk, for the files bus.
    LOCKED = "locked", "Another process writes to the log."
    DISK = "disk", "The disk refused the write."

    # Events given up or lost on our side.
    RETRIES_EXHAUSTED = "retries_exhausted", "All attempts or the allowed time were used up."
    BAD_RECORD = "bad_record", "The event can never be stored."
    OVERFLOW = "overflow", "The queue was full."
    SPOOL_FULL = "spool_full", "The spool was full."
    SPOOL_UNREADABLE = "spool_unreadable", "A part of the spool could not be read."
    SHUTDOWN = "shutdown", "The process ended before the event was sent or kept on disk."
    UNENCODABLE = "unencodable", "The record could not be encoded as an envelope."
    UNREADABLE = "unreadable", "What a worker sent could not be read."
    PUBLISHER_UNAVAILABLE = "publisher_unavailable", "The publisher process took no more events."
    DEAD_LETTER_FAILED = "dead_letter_failed", "The dead letter could not be written."
    DEAD_LETTER_OVERFLOW = "dead_letter_overflow", "An old dead letter made room for a newer one."
