"""How a window collects the answers of JetStream."""

import asyncio
from typing import Any

from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.nats.in_flight import Window
from tests.contract.sinks import make_events

LATE = Result(Outcome.AMBIGUOUS, "late")


def events(count: int, subject: str = "s") -> list[Event]:
    return make_events(NatsSettings(servers=("nats://h",), subject=subject).router(), count)


async def test_window_is_settled_when_every_event_is() -> None:
    window = Window(events(3), first=10)
    window.acknowledge([10, 12])
    assert window.unsettled == 1
    window.settle(11, LATE)
    assert await window.wait(0)
    assert window.results == [OK, LATE, OK]
    assert not window.is_all_ok
    assert window.is_held_up


async def test_late_and_repeated_answers_meet_nobody() -> None:
    window = Window(events(2), first=10)
    window.acknowledge([9, 12, 10, 10])
    window.settle(10, LATE)
    window.settle(3, LATE)
    assert window.results == [OK, None]
    assert window.unsettled == 1


async def test_refused_record_holds_up_nobody() -> None:
    window = Window(events(2), first=0)
    window.settle(0, Result(Outcome.BAD_RECORD, "too_large"))
    window.acknowledge([1])
    assert not window.is_held_up


async def test_result_of_a_subject_goes_to_its_waiting_events_only() -> None:
    mixed = [*events(1, "A.x"), *events(2, "b")]
    window = Window(mixed, first=0)
    window.acknowledge([1])
    window.settle_subject("a.x", LATE)
    window.settle_subject("b", LATE)
    assert window.results == [LATE, OK, LATE]


async def test_wait_ends_without_progress_only() -> None:
    window = Window(events(3), first=0)
    loop = asyncio.get_running_loop()

    def settle(number: int) -> Any:
        return window.acknowledge([number])

    for number in range(3):
        loop.call_later(0.05 * (number + 1), settle, number)
    # Each answer alone comes in time; all of them together do not.
    assert await window.wait(0.1)


async def test_silent_window_gives_up() -> None:
    window = Window(events(2), first=0)
    assert not await window.wait(0.01)
    window.settle_rest(LATE)
    assert window.results == [LATE, LATE]
