"""Turns: in order, few per round of the event loop, most for the new, none lost to who leaves."""

import asyncio

from tardis_machine.sources.turns import LongTurn, Turns


async def test_turns_come_in_order_and_few_per_round() -> None:
    turns, got, rounds = Turns(at_once=2), [], 0

    async def stream(name: int) -> None:
        await turns.wait()
        got.append((name, rounds))

    streams = [asyncio.create_task(stream(name)) for name in range(7)]
    while len(got) < 7:
        rounds += 1
        await asyncio.sleep(0)
    assert [name for name, _ in got] == list(range(7))
    per_round = [sum(at == number for _, at in got) for number in {at for _, at in got}]
    assert max(per_round) == 2
    await asyncio.gather(*streams)


async def test_stream_that_leaves_takes_nobody_elses_turn() -> None:
    turns = Turns(at_once=1)
    streams = [asyncio.create_task(turns.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    streams[1].cancel()
    async with asyncio.timeout(60):
        await asyncio.gather(streams[0], streams[2])
        # The next ones are served too.
        await turns.wait()


async def test_new_stream_waits_for_one_round_of_the_others_only() -> None:
    turns, others = Turns(at_once=1), 0

    async def busy() -> None:
        nonlocal others
        while True:
            await turns.wait()
            others += 1

    tasks = [asyncio.create_task(busy()) for _ in range(20)]
    while others < 100:  # noqa: ASYNC110
        await asyncio.sleep(0)
    before = others
    await turns.wait()
    assert others - before <= 21
    for task in tasks:
        task.cancel()


async def test_new_stream_shares_turns_with_all_that_go_on() -> None:
    turns, others = Turns(at_once=4), 0

    async def busy() -> None:
        nonlocal others
        while True:
            await turns.wait()
            others += 1

    tasks = [asyncio.create_task(busy()) for _ in range(200)]
    while others < 400:  # noqa: ASYNC110
        await asyncio.sleep(0)
    before = others
    await turns.wait(is_new=True)
    assert others - before <= 8
    for task in tasks:
        task.cancel()


async def test_last_of_many_new_streams_waits_for_few_of_them() -> None:
    turns, got = Turns(at_once=4), []

    async def begin(name: str) -> None:
        await turns.wait(is_new=True)
        got.append(name)

    names = [f"crowd {number}" for number in range(200)]
    crowd = [asyncio.create_task(begin(name)) for name in names]
    await asyncio.sleep(0)
    last = asyncio.create_task(begin("last"))
    await asyncio.gather(last, *crowd)
    assert got.index("last") <= 12
    assert got.index(names[0]) <= 4
    assert got.index(names[50]) <= 100


async def test_streams_go_on_however_many_are_new() -> None:
    turns, new = Turns(at_once=4), 0

    async def begin() -> None:
        nonlocal new
        while True:
            await turns.wait(is_new=True)
            new += 1

    tasks = [asyncio.create_task(begin()) for _ in range(200)]
    while new < 400:  # noqa: ASYNC110
        await asyncio.sleep(0)
    before = new
    await turns.wait()
    assert new - before <= 8
    for task in tasks:
        task.cancel()


async def test_short_turn_is_not_interrupted() -> None:
    turns, ran = Turns(), False

    async def other() -> None:
        nonlocal ran
        ran = True

    task = asyncio.create_task(other())
    await LongTurn(turns, seconds=3600).pause()
    assert not ran
    await LongTurn(turns, seconds=0).pause()
    assert ran
    await task


async def test_turns_that_were_given_leave_no_large_number() -> None:
    turns = Turns()
    for _ in range(300):
        await turns.wait()
    assert all(value < 256 for value in vars(turns).values() if isinstance(value, int))
