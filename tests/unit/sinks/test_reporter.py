"""What operators read: a line per change, the first error at once, then summaries."""

from typing import Any

from structlog.testing import capture_logs

from tardis_machine.sinks.reporting.meter import Meter
from tardis_machine.sinks.reporting.reporter import Reporter
from tardis_machine.sinks.reporting.status import BusState
from tardis_machine.telemetry.metrics import Metrics


class Desk:
    """A reporter with a clock that tests own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = Metrics()
        meter = Meter("kafka", self.metrics.event_bus)
        self.reporter = Reporter(meter, 10.0, lambda: self.now)

    def state_values(self) -> dict[str, float]:
        family = next(iter(self.metrics.event_bus.state.collect()))
        return {sample.labels["state"]: sample.value for sample in family.samples}


def numbers() -> dict[str, Any]:
    return {"queued": 3}


def test_change_of_state_is_logged_once_and_counted() -> None:
    desk = Desk()
    with capture_logs() as lines:
        for _ in range(3):
            desk.reporter.change(BusState.UP)
        desk.reporter.change(BusState.DEGRADED)
    assert [(line["before"], line["state"]) for line in lines] == [
        ("connecting", "up"),
        ("up", "degraded"),
    ]
    assert lines[1]["log_level"] == "warning"
    assert {state for state, value in desk.state_values().items() if value} == {"degraded"}


def test_first_error_is_logged_at_once_and_repeated_ones_in_a_summary() -> None:
    desk = Desk()
    with capture_logs() as lines:
        for _ in range(100):
            desk.reporter.fail("throttled", "slow down", 5)
        desk.reporter.summarize(numbers)
        assert len(lines) == 1
        desk.now = 11.0
        desk.reporter.summarize(numbers)
        desk.reporter.summarize(numbers)
    assert len(lines) == 2
    assert lines[0]["event"] == "publishing failed"
    assert (lines[1]["retries"], lines[1]["queued"]) == ({"throttled": 495}, 3)


def test_error_of_another_kind_is_logged_at_once() -> None:
    desk = Desk()
    with capture_logs() as lines:
        desk.reporter.fail("throttled", "")
        desk.reporter.fail("refused", "no such topic")
    assert [line["reason"] for line in lines] == ["throttled", "refused"]
    assert desk.reporter.last_error == "refused: no such topic"
    desk.reporter.recover()
    assert desk.reporter.last_error is None
