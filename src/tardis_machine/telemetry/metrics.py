"""Every metric, declared once; docs/metrics.md comes from here.

`Metrics` has its own registry, not a global one, so two servers in one process and every test have
their own. Names start with `tardis_machine_` and carry their unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

NAMESPACE = "tardis_machine"
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
RECORDS_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
MAX_TARGET_LABELS = 200


@dataclass(frozen=True)
class MetricInfo:
    """Description of a metric, for docs/metrics.md."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


class Declarations:
    """Creates the metrics of one area on one registry and keeps their descriptions."""

    def __init__(self, registry: CollectorRegistry, infos: list[MetricInfo], area: str) -> None:
        self._registry = registry
        self._infos = infos
        self._prefix = f"{NAMESPACE}_{area}"

    def counter(self, name: str, help: str, *labels: str) -> Counter:
        """Declare a counter."""
        return Counter(
            self._note(name, "counter", labels, help), help, labels, registry=self._registry
        )

    def gauge(self, name: str, help: str, *labels: str) -> Gauge:
        """Declare a gauge."""
        return Gauge(self._note(name, "gauge", labels, help), help, labels, registry=self._registry)

    def histogram(
        self, name: str, help: str, *labels: str, buckets: Sequence[float] = SECONDS_BUCKETS
    ) -> Histogram:
        """Declare a histogram."""
        full = self._note(name, "histogram", labels, help)
        return Histogram(full, help, labels, registry=self._registry, buckets=buckets)

    def _note(self, name: str, kind: str, labels: tuple[str, ...], help: str) -> str:
        full = f"{self._prefix}_{name}"
        self._infos.append(MetricInfo(full, kind, labels, help))
        return full


class ServerMetrics:
    """The HTTP and WebSocket server."""

    def __init__(self, declare: Declarations) -> None:
        self.requests = declare.counter(
            "requests_total",
            "HTTP requests answered, WebSocket upgrades included.",
            "route",
            "status",
        )
        self.active_streams = declare.gauge(
            "active_streams", "Replays and live streams in progress.", "route"
        )
        self.messages = declare.counter(
            "messages_total", "Messages sent to clients.", "route", "exchange"
        )
        self.sent_bytes = declare.counter(
            "sent_bytes_total", "Bytes sent to clients, before compression.", "route"
        )
        self.first_message = declare.histogram(
            "first_message_seconds", "Time from a request to its first message.", "route"
        )
        self.slow_clients = declare.counter(
            "slow_clients_total",
            "Connections closed because the client read nothing for slow-client-seconds.",
            "route",
        )


class ArchiveMetrics:
    """The data API and the cache."""

    def __init__(self, declare: Declarations) -> None:
        self.slices = declare.counter(
            "slices_total", "Slices read, by origin: cache or network.", "origin"
        )
        self.downloaded_bytes = declare.counter(
            "downloaded_bytes_total", "Compressed bytes downloaded from the data API."
        )
        self.download = declare.histogram(
            "download_seconds", "Time to download one slice, retries included."
        )
        self.retries = declare.counter(
            "retries_total", "Retries of downloads, by HTTP status or kind of failure.", "reason"
        )
        self.active_downloads = declare.gauge("active_downloads", "Downloads in progress.")
        self.corrupt_slices = declare.counter(
            "corrupt_slices_total", "Cached slices that were unreadable and downloaded again."
        )


class ReplayMetrics:
    """Normalization of raw messages."""

    def __init__(self, declare: Declarations) -> None:
        self.messages = declare.counter(
            "messages_total", "Raw messages read from slices and live feeds.", "exchange"
        )
        self.records = declare.counter(
            "records_total", "Normalized records produced, including computed ones.", "exchange"
        )
        self.mapping_errors = declare.counter(
            "mapping_errors_total", "Raw messages that could not be normalized.", "exchange"
        )
        self.disconnects = declare.counter(
            "disconnects_total", "Disconnects in recordings and live feeds.", "exchange"
        )

    def of(self, exchange: str) -> "ReplayCounters":
        """Return the counters of one exchange; each call of theirs counts a whole chunk."""
        return ReplayCounters(
            self.messages.labels(exchange),
            self.records.labels(exchange),
            self.mapping_errors.labels(exchange),
            self.disconnects.labels(exchange),
        )


class ReplayCounters(NamedTuple):
    """What is counted for one exchange."""

    messages: Counter
    records: Counter
    mapping_errors: Counter
    disconnects: Counter


class EventBusMetrics:
    """Publishing; every metric has the label `bus`."""

    def __init__(self, declare: Declarations) -> None:
        self._declare_flow(declare)
        self._declare_failures(declare)
        self._declare_state(declare)

    def _declare_flow(self, declare: Declarations) -> None:
        self.events = declare.counter(
            "events_total",
            "Events received for the bus, before filtering.",
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
        self.enqueued = declare.counter("enqueued_total", "Events accepted into the queue.", "bus")
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
            "Time that producers were blocked by a full queue.",
            "bus",
            "origin",
        )
        self.connects = declare.counter(
            "connects_total", "Connection attempts, by outcome.", "bus", "outcome"
        )

    def _declare_state(self, declare: Declarations) -> None:
        self.queue_events = declare.gauge("queue_events", "Events in the memory queue.", "bus")
        self.queue_bytes = declare.gauge("queue_bytes", "Bytes in the memory queue.", "bus")
        self.queue_oldest = declare.gauge(
            "queue_oldest_seconds", "Age of the oldest event in the memory queue.", "bus"
        )
        self.lanes = declare.gauge(
            "lanes", "Keys with a failed event; later events of the key wait for its retry.", "bus"
        )
        self.in_flight = declare.gauge("in_flight", "Batches sent and not yet acknowledged.", "bus")
        self.spool_events = declare.gauge("spool_events", "Events in the spool on disk.", "bus")
        self.spool_bytes = declare.gauge("spool_bytes", "Bytes in the spool on disk.", "bus")
        self.spool_oldest = declare.gauge(
            "spool_oldest_seconds", "Age of the oldest event in the spool.", "bus"
        )
        self.state = declare.gauge(
            "state", "1 for the current state of the bus, 0 for all others.", "bus", "state"
        )
        self.last_ack = declare.gauge(
            "last_ack_timestamp_seconds", "Unix time of the last acknowledgement.", "bus"
        )


class LakeMetrics:
    """Streaming queries of the lake."""

    def __init__(self, declare: Declarations) -> None:
        self.rows = declare.counter("rows_total", "Rows read by a streaming query.", "query")
        self.batches = declare.counter(
            "batches_total", "Batches completed by a streaming query.", "query"
        )
        self.batch = declare.histogram("batch_seconds", "Duration of one batch.", "query")
        self.lag = declare.gauge(
            "behind_events",
            "Events of the bus not read yet (consumer lag); bytes for files.",
            "query",
        )
        self.lost = declare.counter(
            "lost_events_total", "Events that the bus deleted before they were read.", "query"
        )

    def count(self, query: str, rows: int, seconds: float, lag: int | None, lost: int) -> None:
        """Count one batch."""
        self.rows.labels(query).inc(rows)
        self.batches.labels(query).inc()
        self.batch.labels(query).observe(seconds)
        self.lag.labels(query).set(lag or 0)
        self.lost.labels(query).inc(lost)


class Metrics:
    """All metrics of one process, on one registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.infos: list[MetricInfo] = []
        self.server = ServerMetrics(self._area("server"))
        self.archive = ArchiveMetrics(self._area("archive"))
        self.replay = ReplayMetrics(self._area("replay"))
        self.event_bus = EventBusMetrics(self._area("event_bus"))
        self.lake = LakeMetrics(self._area("lake"))

    def _area(self, name: str) -> Declarations:
        return Declarations(self.registry, self.infos, name)


class BoundedLabel:
    """Limits the cardinality of a label: values after the first `limit` become `other`."""

    def __init__(self, limit: int = MAX_TARGET_LABELS) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def value(self, text: str) -> str:
        """Return the label value to use for a text."""
        if text not in self._seen:
            if len(self._seen) >= self._limit:
                return "other"
            self._seen.add(text)
        return text
