"""Equal entries are read once."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

from tardis_machine.model.records import Record, Trade
from tardis_machine.model.requests import NormalizedReplayRequest
from tardis_machine.session.plan import EntryPlan, plan_normalized
from tardis_machine.session.sharing import open_entries
from tardis_machine.session.streams import merged_chunks
from tardis_machine.telemetry.clock import system_clock


def entries_of(*symbols: str) -> tuple[EntryPlan, ...]:
    requests = [
        NormalizedReplayRequest(
            exchange="bitmex",
            symbols=[symbol],
            start="2024-03-01",
            end="2024-03-01T00:01",
            data_types=["trade"],
        )
        for symbol in symbols
    ]
    return plan_normalized(requests, system_clock()).entries


def trade(symbol: str, second: int, number: int = 0) -> Trade:
    time = f"2024-03-01T00:00:{second:02d}.000000Z"
    return Trade(
        symbol=symbol,
        exchange="bitmex",
        id=str(number),
        price=1.0,
        amount=1.0,
        side="buy",
        timestamp=time,
        local_timestamp=time,
    )


class Reads:
    """Streams of three chunks per entry; two trades share their time across a border."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []

    async def read(self, entry: EntryPlan) -> AsyncGenerator[list[Record], None]:
        (symbol,) = entry.symbols or ()
        self.opened.append(symbol)
        try:
            yield [trade(symbol, 1), trade(symbol, 2, 1)]
            yield [trade(symbol, 2, 2)]
            yield [trade(symbol, 3)]
        finally:
            self.closed.append(symbol)


async def merged(reads: Reads, *symbols: str) -> list[tuple[str, str]]:
    async with AsyncExitStack() as stack:
        streams = await open_entries(stack, entries_of(*symbols), reads.read)
        return [
            (record.symbol, record.local_timestamp[18] + record.id)
            async for chunk in merged_chunks(streams)
            for record in chunk
            if isinstance(record, Trade)
        ]


async def test_equal_entries_open_one_source_and_keep_the_order_of_entries() -> None:
    reads = Reads()
    records = await merged(reads, "A", "B", "A")
    assert sorted(reads.opened) == sorted(reads.closed) == ["A", "B"]
    assert records == [
        *[("A", "10"), ("B", "10"), ("A", "10")],
        *[("A", "21"), ("A", "22"), ("B", "21"), ("B", "22"), ("A", "21"), ("A", "22")],
        *[("A", "30"), ("B", "30"), ("A", "30")],
    ]


async def test_reader_that_stops_early_closes_the_source() -> None:
    reads = Reads()
    async with AsyncExitStack() as stack:
        first, second = await open_entries(stack, entries_of("A", "A"), reads.read)
        assert await anext(first) == await anext(second)
    assert reads.closed == ["A"]


async def test_others_run_while_many_entries_are_read() -> None:
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    entries = 50
    async with AsyncExitStack() as stack:
        streams = await open_entries(stack, entries_of(*["A"] * entries), Reads().read)
        first = await anext(merged_chunks(streams, pause))
    assert first
    # All are read before the first output.
    assert pauses >= entries
