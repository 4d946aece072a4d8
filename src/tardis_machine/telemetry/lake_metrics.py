"""Metrics of the lake."""

from tardis_machine.telemetry.declarations import Declarations


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
