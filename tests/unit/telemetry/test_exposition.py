"""Metrics of several processes read as one set."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families

from tardis_machine.telemetry.exposition import (
    SharedRegistry,
    expose,
    merge_families,
    retire,
)
from tardis_machine.telemetry.metrics import Metrics
from tardis_machine.telemetry.process import worker_deaths

SERVER = "tardis_machine_server"


def value(families: object, name: str, **labels: str) -> float | None:
    """Find one sample among families."""
    assert isinstance(families, list)
    samples = [sample for family in families for sample in family.samples]
    return next((s.value for s in samples if s.name == name and s.labels == labels), None)


def parsed(text: str) -> list[Metric]:
    return list(text_string_to_metric_families(text))


def scrape(registry: CollectorRegistry) -> list[Metric]:
    return parsed(expose(registry.collect()).decode())


def shared(folder: Path, slot: str) -> Metrics:
    return Metrics(SharedRegistry(folder, slot))


def share(metrics: Metrics) -> None:
    assert isinstance(metrics.registry, SharedRegistry)
    metrics.registry.share()


def test_samples_of_equal_name_and_labels_add_up() -> None:
    first, second = Metrics(), Metrics()
    for metrics, count in ((first, 2), (second, 3)):
        metrics.server.messages.labels("/replay", "bitmex").inc(count)
    second.server.messages.labels("/replay", "deribit").inc(7)
    merged = merge_families([first.registry.collect(), second.registry.collect()])
    name = f"{SERVER}_messages_total"
    assert value(merged, name, route="/replay", exchange="bitmex") == 5
    assert value(merged, name, route="/replay", exchange="deribit") == 7


def test_histograms_keep_their_buckets_in_order() -> None:
    first, second = Metrics(), Metrics()
    first.server.first_message.labels("/replay").observe(0.002)
    second.server.first_message.labels("/replay").observe(20)
    texts = [expose(each.registry.collect()).decode() for each in (first, second)]
    merged = merge_families(map(parsed, texts))
    name = f"{SERVER}_first_message_seconds"
    assert value(merged, f"{name}_count", route="/replay") == 2
    assert value(merged, f"{name}_bucket", route="/replay", le="0.0025") == 1
    lines = expose(merged).decode().splitlines()
    buckets = [line for line in lines if line.startswith(f"{name}_bucket")]
    assert [float(line.split()[-1]) for line in buckets] == [0, *[1] * 12, *[2] * 3]


@pytest.mark.parametrize(
    ("name", "values", "combined"),
    [
        ("process_start_time_seconds", (5, 3), 3),
        ("process_max_fds", (1024, 1024), 1024),
        ("last_ack_timestamp_seconds", (5, 3), 5),
        ("queue_oldest_seconds", (5, 3), 5),
        ("process_open_fds", (5, 3), 8),
    ],
)
def test_gauge_is_combined_as_its_meaning_asks(
    name: str, values: tuple[float, float], combined: float
) -> None:
    parts = [parsed(f"# TYPE {name} gauge\n{name} {each}\n") for each in values]
    assert value(merge_families(parts), name) == combined


def test_text_has_no_creation_times() -> None:
    metrics = Metrics()
    metrics.server.messages.labels("/replay", "bitmex").inc()
    assert b"_created" not in expose(metrics.registry.collect())


def test_each_process_answers_for_all(tmp_path: Path) -> None:
    first, second = shared(tmp_path, "0"), shared(tmp_path, "1")
    first.archive.downloaded_bytes.inc(10)
    second.archive.downloaded_bytes.inc(5)
    share(second)
    name = "tardis_machine_archive_downloaded_bytes_total"
    assert value(scrape(first.registry), name) == 15
    assert value(scrape(second.registry), name) == 15


def test_successor_goes_on_counting_and_forgets_state(tmp_path: Path) -> None:
    first, sibling = shared(tmp_path, "0"), shared(tmp_path, "1")
    first.archive.downloaded_bytes.inc(10)
    first.archive.active_downloads.inc()
    share(first)
    retire(tmp_path, "0", worker_deaths(1))
    seen = scrape(sibling.registry)
    assert value(seen, "tardis_machine_archive_active_downloads") == 0
    assert value(seen, "tardis_machine_process_worker_deaths_total") == 1
    successor = shared(tmp_path, "0")
    successor.archive.downloaded_bytes.inc(1)
    share(successor)
    for metrics in (successor, sibling):
        seen = scrape(metrics.registry)
        assert value(seen, "tardis_machine_archive_downloaded_bytes_total") == 11
        assert value(seen, "tardis_machine_process_worker_deaths_total") == 1


def test_deaths_add_up_over_generations(tmp_path: Path) -> None:
    for _ in range(3):
        retire(tmp_path, "0", worker_deaths(1))
        share(shared(tmp_path, "0"))
    seen = scrape(shared(tmp_path, "1").registry)
    assert value(seen, "tardis_machine_process_worker_deaths_total") == 3


def test_process_answers_for_itself_when_nothing_can_be_written(tmp_path: Path) -> None:
    metrics = shared(tmp_path / "gone", "0")
    metrics.archive.downloaded_bytes.inc(10)
    seen = scrape(metrics.registry)
    assert value(seen, "tardis_machine_archive_downloaded_bytes_total") == 10


def test_full_disk_does_not_end_the_parent_of_a_worker_that_died(tmp_path: Path) -> None:
    # Where no file can be made: it would otherwise take the other workers with it.
    retire(tmp_path / "gone", "0", worker_deaths(1))
