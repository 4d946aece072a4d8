"""Metrics of publishing."""

from tardis_machine.telemetry.declarations import RECORDS_BUCKETS, Declarations


class EventBusMetrics:
    """Publishing; every metric has the label `bus`."""

    def __init__(self, declare: Declarations) -> None:
        self._declare_flow(declare)
        self._declare_failures(declare)
        self._declare_state(declare)

    def _declare_flow(self, declare: Declarations) -> None:
        self.events = declare.counter(
            "events_total",
            "Events read from the log to be sent, again after a restart.",
            "bus",
            "payload_case",
            "origin",
        )
        self.filtered = declare.counter(
            "filtered_total",
            "Events excluded by include-payloads and exclude-payloads.",
            "bus",
            "payload_case",
        )
        self.enqueued = declare.counter(
            "enqueued_total",
            "Events accepted for the bus, those left out by filters included.",
            "bus",
        )
        self.published = declare.counter(
            "published_total", "Events acknowledged by the bus.", "bus", "target", "payload_case"
        )
        self.published_bytes = declare.counter(
            "published_bytes_total", "Envelope bytes acknowledged by the bus.", "bus", "target"
        )
        self.batches = declare.counter(
            "batches_total", "Batches sent, by outcome.", "bus", "target", "outcome"
        )
        self.batch_records = declare.histogram(
            "batch_records", "Events per batch.", "bus", buckets=RECORDS_BUCKETS
        )
        self.send = declare.histogram("send_seconds", "Duration of one send call.", "bus")
        self.delivery = declare.histogram(
            "delivery_seconds",
            "Time from acceptance to acknowledgement of an event.",
            "bus",
            "origin",
        )

    def _declare_failures(self, declare: Declarations) -> None:
        self.retries = declare.counter(
            "retries_total", "Retries of events, by reason of the failure.", "bus", "reason"
        )
        self.redelivered = declare.counter(
            "redelivered_total",
            "Events sent again after an unknown outcome; each may be a duplicate.",
            "bus",
        )
        self.throttled = declare.counter(
            "throttled_total", "Events rejected by a rate limit of the bus.", "bus", "target"
        )
        self.duplicates = declare.counter(
            "duplicates_total", "Events that the bus recognized as duplicates.", "bus"
        )
        self.dead_letters = declare.counter(
            "dead_letter_total", "Events moved to dead letters, by reason.", "bus", "reason"
        )
        self.dropped = declare.counter(
            "dropped_total", "Events lost, by reason.", "bus", "reason", "payload_case"
        )
        self.blocked = declare.counter(
            "blocked_seconds_total",
            "Time that replays waited for a bus whose backlog was at its bound.",
            "bus",
            "origin",
        )
        self.connects = declare.counter(
            "connects_total", "Connection attempts, by outcome.", "bus", "outcome"
        )

    def _declare_state(self, declare: Declarations) -> None:
        self.queue_events = declare.gauge(
            "queue_events", "Events in the log that wait for the bus.", "bus"
        )
        self.queue_bytes = declare.gauge(
            "queue_bytes", "Bytes of the log that wait for the bus.", "bus"
        )
        self.queue_oldest = declare.gauge(
            "queue_oldest_seconds", "Age of the oldest event that waits for the bus.", "bus"
        )
        self.lanes = declare.gauge(
            "lanes", "Keys with a failed event; later events of the key wait for its retry.", "bus"
        )
        self.in_flight = declare.gauge("in_flight", "Batches sent and not yet acknowledged.", "bus")
        self.stranded_events = declare.gauge(
            "stranded_events",
            "Events left for an endpoint of the bus that is not configured any more.",
            "bus",
        )
        self.parked_events = declare.gauge(
            "parked_events", "Events that wait for a missing or refused destination.", "bus"
        )
        self.state = declare.gauge(
            "state", "1 for the current state of the bus, 0 for all others.", "bus", "state"
        )
        self.last_ack = declare.gauge(
            "last_ack_timestamp_seconds", "Unix time of the last acknowledgement.", "bus"
        )
