"""Replay at recorded speed, on a clock the test owns."""

import asyncio

import pytest

from tardis_machine.sources.pacing import STEP_US, Pacer

SECOND_US = 1_000_000
START_US = 1_709_251_200 * SECOND_US


class Clock:
    """Time that only sleeping, and the reader, move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def read(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 6))
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def pacer(clock: Clock, speed: float = 1.0) -> Pacer:
    return Pacer(speed, now=clock.read, sleep=clock.sleep)


def times(*seconds: float) -> list[int]:
    return [START_US + round(second * SECOND_US) for second in seconds]


async def handed_out(pace: Pacer, seconds: list[float]) -> list[list[float]]:
    return [batch async for batch in pace.pace(seconds, times(*seconds))]


async def test_first_item_is_due_at_once(clock: Clock) -> None:
    assert await handed_out(pacer(clock), [5.0]) == [[5.0]]
    assert clock.pauses == []


async def test_items_wait_for_their_distance_in_time(clock: Clock) -> None:
    assert await handed_out(pacer(clock), [0.0, 1.0, 3.5]) == [[0.0], [1.0], [3.5]]
    assert clock.pauses == [1.0, 2.5]


@pytest.mark.parametrize(("speed", "pauses"), [(10.0, [0.1, 0.25]), (0.5, [2.0, 5.0])])
async def test_speed_divides_the_waits(clock: Clock, speed: float, pauses: list[float]) -> None:
    await handed_out(pacer(clock, speed), [0.0, 1.0, 3.5])
    assert clock.pauses == pauses


async def test_items_of_one_step_are_handed_out_together(clock: Clock) -> None:
    step = STEP_US / SECOND_US
    seconds = [0.0, step * 0.5, step, step * 2.5]
    assert await handed_out(pacer(clock), seconds) == [seconds[:3], seconds[3:]]


async def test_time_goes_on_across_chunks(clock: Clock) -> None:
    pace = pacer(clock)
    await handed_out(pace, [0.0, 1.0])
    await handed_out(pace, [2.0])
    assert clock.pauses == [1.0, 1.0]


async def test_slow_reader_gets_all_that_is_due_by_then(clock: Clock) -> None:
    pace = pacer(clock)
    await handed_out(pace, [0.0])
    clock.now += 10
    assert await handed_out(pace, [1.0, 5.0, 9.0, 20.0]) == [[1.0, 5.0, 9.0], [20.0]]
    assert clock.pauses == [10.0]


async def test_item_out_of_order_is_never_waited_for(clock: Clock) -> None:
    pace = pacer(clock)
    assert await handed_out(pace, [10.0, 2.0, 11.0]) == [[10.0, 2.0], [11.0]]
    assert clock.pauses == [1.0]


async def test_nothing_makes_nothing(clock: Clock) -> None:
    assert await handed_out(pacer(clock), []) == []
