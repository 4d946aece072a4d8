"""Progress of the streaming queries: rows, rate and lag, as log lines and for /metrics."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from tardis_machine.lake.buses.positions import LOST, NOT_STREAMS
from tardis_machine.telemetry.lake_metrics import LakeMetrics

REPORT_SECONDS = 5.0
END_SECONDS = 30.0
WRITTEN = "written"
"""Name under which a query reports the rows that its tasks have written themselves."""
_KAFKA = "KafkaV2"


@dataclass
class QueryState:
    """Totals of one query since it started."""

    rows: int = 0
    batches: int = 0
    seconds: float = 0.0
    lag: int | None = None
    lost: int = 0
    """Events that the bus deleted before they were read, at least."""
    reported_at: float = field(default_factory=time.monotonic)
    reported_batches: int = -1

    def text(self, name: str) -> str:
        """Return the progress line."""
        rate = f", {self.rows / self.seconds:,.0f} rows/s" if self.seconds else ""
        behind = "" if not self.lag else f", {self.lag:,} behind the bus"
        lost = f", {self.lost:,} events lost at least" if self.lost else ""
        batches = "1 batch" if self.batches == 1 else f"{self.batches:,} batches"
        return f"{name}: {self.rows:,} rows in {batches}{rate}{behind}{lost}"


class ProgressListener(StreamingQueryListener):
    """Adds up what Spark reports after each batch."""

    def __init__(self, metrics: LakeMetrics, say: Callable[[str], None]) -> None:
        self._metrics = metrics
        self._say = say
        self.states: dict[str, QueryState] = {}
        self._ends: dict[str, threading.Event] = {}

    def wait_for_end(self, run_id: str) -> None:
        """Wait until all reports of a finished run have arrived, which is soon."""
        self._end_of(run_id).wait(END_SECONDS)

    def report(self, name: str) -> None:
        """Print the progress line of a query, unless nothing changed since the last one."""
        state = self.states.get(name)
        if state is None or state.batches == state.reported_batches:
            return
        state.reported_at, state.reported_batches = time.monotonic(), state.batches
        self._say(state.text(name))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Start counting."""
        if event.name:
            self.states[event.name] = QueryState()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Count one batch, and print a progress line every few seconds."""
        progress = event.progress
        state = self.states.get(progress.name or "")
        if state is None:
            return
        seconds = (progress.batchDuration or 0) / 1000
        rows = rows_of(progress)
        state.rows += rows
        state.batches += 1
        state.seconds += seconds
        state.lag = sum(filter(None, (lag_of(each.json) for each in progress.sources)))
        before = state.lost
        state.lost = sum(lost_of(each.json, before) for each in progress.sources)
        lost = max(state.lost - before, 0)
        self._metrics.count(str(progress.name), rows, seconds, state.lag, lost)
        if time.monotonic() - state.reported_at >= REPORT_SECONDS:
            self.report(str(progress.name))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: there was nothing to read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Note that this run sends no more reports."""
        self._end_of(str(event.runId)).set()

    def _end_of(self, run_id: str) -> threading.Event:
        return self._ends.setdefault(run_id, threading.Event())


def rows_of(progress: StreamingQueryProgress) -> int:
    """Return how many rows a batch had; tasks that write files count them themselves."""
    observed = progress.observedMetrics.get(WRITTEN)
    return progress.numInputRows if observed is None else int(observed[WRITTEN] or 0)


def lost_of(source: str, before: int) -> int:
    """Return the lost events of a source in total, given the total before this batch."""
    progress = json.loads(source)
    latest, start, end = (progress.get(f"{name}Offset") for name in ("latest", "start", "end"))
    if isinstance(latest, Mapping) and LOST in latest:
        return int(latest[LOST]["events"])
    if not str(progress.get("description", "")).startswith(_KAFKA) or not start or not end:
        return before
    # Spark's connector skips lost events silently; offsets count events one by one.
    return before + max(_distance(start, end) - int(progress["numInputRows"]), 0)


def lag_of(source: str) -> int | None:
    """Return how many events (bytes, for files) a source is behind; None when unknown."""
    progress = json.loads(source)
    behind = (progress.get("metrics") or {}).get("maxOffsetsBehindLatest")
    if behind is not None:
        return int(float(behind))
    latest, end = progress.get("latestOffset"), progress.get("endOffset")
    if not isinstance(latest, Mapping) or not isinstance(end, Mapping):
        return None
    return _distance(end, latest)


def _distance(start: Mapping[str, Any], end: Mapping[str, Any]) -> int:
    """Return the number of events between two offsets; a missing start means from zero."""
    return sum(
        max(_number(place) - _number((start.get(stream) or {}).get(partition)), 0)
        for stream, partitions in end.items()
        if isinstance(partitions, Mapping) and stream not in NOT_STREAMS
        for partition, place in partitions.items()
    )


def _number(position: Any) -> int:
    """Return a position as a number that increases with every event."""
    if isinstance(position, Mapping):
        position = position.get("added", position.get("byte", 0))
    return int(position) if str(position).isdigit() else 0
