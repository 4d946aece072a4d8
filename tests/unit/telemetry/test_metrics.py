import re

from prometheus_client import generate_latest

from tardis_machine.telemetry.declarations import BoundedLabel
from tardis_machine.telemetry.metrics import Metrics


def test_names_carry_prefix_and_unit() -> None:
    for info in Metrics().infos:
        assert re.fullmatch(r"tardis_machine(_[a-z]+)+", info.name)
        assert info.help.endswith(".")
        assert (info.kind == "counter") == info.name.endswith("_total")


def test_two_sets_of_metrics_do_not_share_state() -> None:
    one, two = Metrics(), Metrics()
    one.archive.slices.labels("cache").inc()
    assert b'slices_total{origin="cache"} 1.0' in generate_latest(one.registry)
    assert b'slices_total{origin="cache"}' not in generate_latest(two.registry)


def test_refusals_of_each_replay_route_are_counted_from_zero() -> None:
    text = generate_latest(Metrics().registry).decode()
    for route in ("/replay", "/replay-normalized"):
        sample = f'tardis_machine_server_requests_total{{route="{route}",status="503"}} 0.0'
        assert sample in text


def test_every_event_bus_metric_has_the_bus_label() -> None:
    infos = [info for info in Metrics().infos if "_event_bus_" in info.name]
    assert len(infos) == 26
    assert all(info.labels[0] == "bus" for info in infos)


def test_label_beyond_the_limit_counts_as_other() -> None:
    label = BoundedLabel(limit=2)
    assert [label.value(text) for text in "abcab"] == ["a", "b", "other", "a", "b"]
