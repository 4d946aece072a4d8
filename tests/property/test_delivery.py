"""Delivery under random faults and deaths: nothing is lost, nothing overtakes, all is counted."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import Overflow
from tests.property.delivery_buses import ModelSettings, OtherSettings
from tests.property.delivery_world import World, full_disk

EXAMPLES, SOAK_EXAMPLES = 100, 2500
STEPS, SOAK_STEPS = 20, 30

SYMBOLS = st.sampled_from("ABC")
LINES = st.lists(
    st.tuples(SYMBOLS, st.sampled_from(["trade", "trade", "liquidation", "garbage"])),
    min_size=1,
    max_size=5,
)
SHARES = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
APPENDING = st.tuples(st.integers(0, 5), SHARES)
PUBLISHING = st.tuples(st.integers(0, 40), SHARES)
"""When a writer or the publisher dies: after so many system calls, with so much of a write left."""
RESULTS = st.sampled_from(
    [
        OK,
        OK,
        Result(Outcome.TRANSIENT, Reason.THROTTLED, "busy"),
        Result(Outcome.AMBIGUOUS, Reason.TIMEOUT, "no answer"),
        Result(Outcome.BAD_RECORD, Reason.BAD_RECORD, "refused"),
        Result(Outcome.BAD_RECORD, Reason.BAD_RECORD, "one of them", is_shared=True),
        Result(Outcome.BAD_DESTINATION, Reason.BAD_RECORD, "missing"),
        Result(Outcome.CLIENT_LOST, Reason.CLIENT_FAILED, "lost"),
    ]
)
SETTINGS = st.builds(
    ModelSettings,
    place=st.sampled_from(["one", "one", "two"]),
    template=st.sampled_from([None, "{{symbol}}", "x-{{symbol}}"]),
    include_payloads=st.sampled_from([(), (), ("trade",)]),
)
OTHERS = st.builds(OtherSettings, include_payloads=st.sampled_from([(), ("liquidation",)]))
BUS = st.sampled_from([0, 0, 1])
OVERFLOWS: st.SearchStrategy[Overflow | None] = st.sampled_from(
    [None, None, None, None, "drop-oldest", "drop-newest"]
)


class Delivery(RuleBasedStateMachine):
    """One server after another on the same directory."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="delivery-"))
        self.world = World(self.folder)

    @initialize(first=SETTINGS, second=OTHERS)
    def start(self, first: ModelSettings, second: OtherSettings) -> None:
        self.world.start([first, second])

    @rule(lines=LINES, number=st.integers(0, 1))
    def write(self, lines: list[tuple[str, str]], number: int) -> None:
        writers = self.world.writers
        if writers:
            self.world.write(writers[number % len(writers)], lines)

    @rule(lines=LINES)
    def write_to_a_full_disk(self, lines: list[tuple[str, str]]) -> None:
        if self.world.writers:
            with full_disk():
                self.world.write(self.world.writers[0], lines)

    @rule(lines=LINES, moment=APPENDING)
    def kill_a_writer(self, lines: list[tuple[str, str]], moment: tuple[int, float]) -> None:
        if self.world.writers:
            self.world.kill_writer(self.world.writers[0], lines, moment)

    @precondition(lambda self: len(self.world.writers) < 2)
    @rule()
    def add_a_writer(self) -> None:
        self.world.add_writer()

    @rule(bus=BUS, times=st.integers(1, 4))
    def deliver(self, bus: int, times: int) -> None:
        for _ in range(times):
            self.world.step(bus)

    @rule(bus=BUS)
    def deliver_on_a_full_disk(self, bus: int) -> None:
        self.world.may_drop = True
        with full_disk():
            self.world.step(bus)

    @rule()
    def end_pauses(self) -> None:
        for bus in self.world.buses:
            bus.drain()

    @rule()
    def tidy(self) -> None:
        self.world.tidy()

    @rule(symbol=SYMBOLS, result=RESULTS, is_destination=st.booleans())
    def change_what_happens(self, symbol: str, result: Result, is_destination: bool) -> None:
        """Let events of a symbol meet with something, or all of the destination that it has now."""
        template = self.world.settings[0].template or "bronze"
        self.world.broker.results[
            template.replace("{{symbol}}", symbol) if is_destination else symbol
        ] = result

    @rule(symbol=SYMBOLS, moment=PUBLISHING, result=RESULTS)
    def kill_the_publisher_while_it_settles(
        self, symbol: str, moment: tuple[int, float], result: Result
    ) -> None:
        self.change_what_happens(symbol, result, is_destination=True)
        if self.world.writers:
            self.world.write(self.world.writers[0], [(symbol, "trade"), (symbol, "liquidation")])
        self.world.kill_publisher(moment, "deliver")
        self.world.start_publisher()

    @rule(is_down=st.booleans())
    def switch_the_broker(self, is_down: bool) -> None:
        self.world.broker.is_down = is_down

    @rule(moment=PUBLISHING, action=st.sampled_from(["deliver", "deliver", "tidy", "start"]))
    def kill_the_publisher(self, moment: tuple[int, float], action: str) -> None:
        self.world.kill_publisher(moment, action)
        self.world.start_publisher()

    @rule(first=SETTINGS, second=OTHERS, is_orderly=st.booleans(), overflow=OVERFLOWS)
    def start_another_server(
        self,
        first: ModelSettings,
        second: OtherSettings,
        is_orderly: bool,
        overflow: Overflow | None,
    ) -> None:
        if is_orderly:
            self.world.stop()
        else:
            self.world.kill()
        self.world.start([first, second], overflow)

    @invariant()
    def everything_is_counted_and_in_order(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        try:
            if self.world.publisher is not None:
                self.deliver_everything()
        finally:
            self.world.kill()
            shutil.rmtree(self.folder)

    def deliver_everything(self) -> None:
        """Let every endpoint be well, and deliver what is left for it."""
        self.world.heal()
        first, second = self.world.settings
        for place in ("one", "two", "one"):
            self.world.stop()
            self.world.start([replace(first, place=place), second])
            self.world.drain()
            self.world.check()
        self.world.stop()
        self.world.check_nothing_is_lost()


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Delivery,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Write no log: it would fail too while the disk is full."""
    structlog.reset_defaults()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


def test_random_faults_and_deaths_lose_nothing() -> None:
    run(EXAMPLES, STEPS)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_random_faults_and_deaths_lose_nothing() -> None:
    run(SOAK_EXAMPLES, SOAK_STEPS)
