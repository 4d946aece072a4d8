"""Metrics of live feeds."""

from tardis_machine.telemetry.declarations import Declarations


class LiveMetrics:
    """Live feeds of exchanges."""

    def __init__(self, declare: Declarations) -> None:
        self.connections = declare.gauge(
            "connections", "WebSockets to exchanges that are open or being opened.", "exchange"
        )
        self.messages = declare.counter(
            "messages_total",
            "Messages received by channel; `other` for acknowledgements and the like.",
            "exchange",
            "channel",
        )
        self.received_bytes = declare.counter(
            "received_bytes_total", "Bytes of messages received, heartbeats included.", "exchange"
        )
        self.last_message = declare.gauge(
            "last_message_timestamp_seconds",
            "Unix time of the last message of a channel.",
            "exchange",
            "channel",
        )
        self.records = declare.counter(
            "records_total", "Normalized records of feeds, each counted once.", "exchange"
        )
        self.reconnects = declare.counter(
            "reconnects_total",
            "Connections that ended, by reason: closed, stale, error, refused, internal.",
            "exchange",
            "reason",
        )
        self.errors = declare.counter(
            "errors_total",
            "Messages that were skipped (unmapped) and subscriptions that were rejected.",
            "exchange",
            "reason",
        )
        self.gaps = declare.counter(
            "gaps_total", "Gaps in the update numbers of a book.", "exchange"
        )
        self.resyncs = declare.counter(
            "resyncs_total", "Books that were requested again after a gap.", "exchange"
        )
        self.snapshot_queue = declare.gauge(
            "snapshot_queue", "Book snapshots waiting to be fetched by REST.", "exchange"
        )
        self.request_weight = declare.gauge(
            "request_weight",
            "Request weight used at a REST API in its current minute.",
            "host",
        )
        self.recorded = declare.counter(
            "recorded_messages_total",
            "Messages for the recording by outcome: recorded, or lost: queue (the disk is slower "
            "than the market) and disk (it cannot be written).",
            "exchange",
            "outcome",
        )

    def of(self, exchange: str) -> "LiveCounters":
        """Return the counters of one exchange."""
        return LiveCounters(self, exchange)


class LiveCounters:
    """What is counted for one exchange."""

    def __init__(self, metrics: LiveMetrics, exchange: str) -> None:
        self._metrics = metrics
        self._exchange = exchange
        self.received_bytes = metrics.received_bytes.labels(exchange)
        self.records = metrics.records.labels(exchange)
        self.gaps = metrics.gaps.labels(exchange)
        self.resyncs = metrics.resyncs.labels(exchange)
        self.snapshot_queue = metrics.snapshot_queue.labels(exchange)

    def count_messages(self, channel: str, count: int, last_seconds: float) -> None:
        """Count messages of a channel, the last of which came at a Unix time."""
        self._metrics.messages.labels(self._exchange, channel).inc(count)
        self._metrics.last_message.labels(self._exchange, channel).set(last_seconds)

    def count_error(self, reason: str) -> None:
        """Count a message that was left out, or a subscription that was refused."""
        self._metrics.errors.labels(self._exchange, reason).inc()
