"""How far a query is, from what Spark reports."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import pytest
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    StreamingQueryProgress,
)

from tardis_machine.lake.progress import (
    WRITTEN,
    ProgressListener,
    QueryState,
    lag_of,
    lost_of,
    rows_of,
)
from tardis_machine.telemetry.metrics import Metrics


def source(**fields: Any) -> str:
    return json.dumps({"numInputRows": 0, "description": "Python tardis-machine-redis", **fields})


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [
        ({"s": {"0": 10}}, {"s": {"0": 25}}, 15),
        ({"s": {"0": 10}}, {"s": {"0": 25}, "t": {"0": 5}}, 20),
        ({"s": {"0": {"added": 3}}}, {"s": {"0": {"added": 7}}}, 4),
        ({"s": {"0": 30}}, {"s": {"0": 25}}, 0),
        ({"s": {"0": 10}}, {"s": {"0": 12}, "_lost": {"events": 99}}, 2),
    ],
)
def test_lag_adds_up_over_streams(end: Any, latest: Any, lag: int) -> None:
    assert lag_of(source(endOffset=end, latestOffset=latest)) == lag


def test_lag_of_kafka_is_what_its_connector_says() -> None:
    assert lag_of(source(metrics={"maxOffsetsBehindLatest": "12"})) == 12


def test_source_without_newest_offset_has_no_lag() -> None:
    assert lag_of(source(endOffset={"s": {"0": 1}}, latestOffset=None)) is None


def test_readers_of_ours_say_how_much_is_lost_in_all() -> None:
    report = source(latestOffset={"s": {"0": 5}, "_lost": {"events": 7}})
    assert lost_of(report, before=3) == 7


def test_kafka_offsets_without_an_event_count_as_lost() -> None:
    report = source(
        description="KafkaV2[Subscribe[t]]",
        startOffset={"t": {"0": 10, "1": 0}},
        endOffset={"t": {"0": 30, "1": 5}},
        numInputRows=15,
    )
    assert lost_of(report, before=1) == 11


def test_state_is_told_in_one_line() -> None:
    state = QueryState(rows=12_000, batches=3, seconds=2, lag=5, lost=1000)
    assert state.text("ingest-nats") == (
        "ingest-nats: 12,000 rows in 3 batches, 6,000 rows/s, 5 behind the bus, "
        "1,000 events lost at least"
    )


class Progress(NamedTuple):
    """The part of Spark's report that is read."""

    sources: list[Any]
    name: str = "ingest-redis"
    numInputRows: int = 3  # noqa: N815
    batchDuration: int = 500  # noqa: N815
    observedMetrics: Mapping[str, Mapping[str, int | None]] = {}  # noqa: N815


class Report(NamedTuple):
    """An event of Spark's listener, when a query starts and after each batch."""

    name: str = "ingest-redis"
    progress: Progress | None = None


class Source(NamedTuple):
    json: str


@pytest.mark.parametrize(
    ("written", "rows"), [({}, 3), ({"written": 7}, 7), ({"written": None}, 0)]
)
def test_rows_are_those_that_tasks_have_written(written: dict[str, int | None], rows: int) -> None:
    observed = {WRITTEN: written} if written else {}
    progress = Progress([], observedMetrics=observed)
    assert rows_of(cast("StreamingQueryProgress", progress)) == rows


def test_every_lost_event_is_counted_once() -> None:
    metrics = Metrics()
    listener = ProgressListener(metrics.lake, lambda _: None)
    listener.onQueryStarted(cast("QueryStartedEvent", Report()))
    for lost in (0, 7, 7, 9):
        latest = {"s": {"0": 5}, "_lost": {"events": lost}}
        progress = Progress([Source(source(latestOffset=latest, endOffset={"s": {"0": 5}}))])
        listener.onQueryProgress(cast("QueryProgressEvent", Report(progress=progress)))
    value = metrics.registry.get_sample_value(
        "tardis_machine_lake_lost_events_total", {"query": "ingest-redis"}
    )
    assert value == 9
