"""Server and publisher over their socket: acknowledged, sent again, bounded."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from prometheus_client import CollectorRegistry

from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.series import Origin
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tardis_machine.model.records import Trade
from tardis_machine.model.time import us_text
from tardis_machine.sinks.bus import Bus
from tardis_machine.sinks.frames import tail_of
from tardis_machine.sinks.memory import MemorySink
from tardis_machine.sinks.publisher import Publisher
from tardis_machine.sinks.publisher_client import PublisherClient
from tardis_machine.sinks.publisher_server import PublisherServer
from tests.unit.sinks.delivery import SECONDS, delivery, make_bus, now_us

START_US = 1_709_251_200_000_000


def lines(*seconds: float, price: float = 1.0) -> bytes:
    """Return trades of one series that arrived at these times."""
    return encode_lines(
        [
            Trade(
                symbol="XBTUSD",
                exchange="bitmex",
                id=str(number),
                price=price,
                amount=1.0,
                side="buy",
                timestamp=us_text(START_US),
                local_timestamp=us_text(START_US + int(second * 1e6)),
            )
            for number, second in enumerate(seconds)
        ]
    )


Open: TypeAlias = Callable[..., "Exchange"]


class Exchange:
    """A publisher in this process that can be stopped and replaced, and a client of it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._folder = folder
        self._options = options
        self._path = folder / "socket"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._path))
        self._listener.listen()
        self._serial = 0
        self.sinks: list[MemorySink] = []
        self.client = PublisherClient(self._path, delivery(**options), "tester", ["memory"], 1.0)

    @asynccontextmanager
    async def publisher(
        self, prepare: Callable[[MemorySink], None] = lambda _: None
    ) -> AsyncIterator[Bus]:
        """Run a publisher while the body runs, then end it as a kill does."""
        self._serial += 1
        sink = MemorySink()
        prepare(sink)
        self.sinks.append(sink)
        bus = make_bus(sink, self._folder / str(self._serial), **self._options)
        publisher = Publisher([bus], CollectorRegistry(), now_us)
        publisher.start()
        server = PublisherServer(publisher)
        async with server.listen(self._listener):
            yield bus
        await server.wait_until_gone()
        await asyncio.to_thread(bus.stop, 5)

    def close(self) -> None:
        self._listener.close()

    @property
    def stored(self) -> list[str]:
        return [event.event_id for sink in self.sinks for event in sink.stored]


@pytest.fixture
def open_exchange(tmp_path: Path) -> Iterator[Callable[..., Exchange]]:
    opened: list[Exchange] = []

    def open_one(**options: Any) -> Exchange:
        opened.append(Exchange(tmp_path, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def expected_ids(*chunks: bytes) -> list[str]:
    encoder = Encoder("tester", Origin.REPLAY)
    return [
        envelope.identity for chunk in chunks for envelope in encoder.encode(decode_lines(chunk), 0)
    ]


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not is_true():  # noqa: ASYNC110 - threads change what is asked for
            await asyncio.sleep(0.01)


async def settled(stream: Any) -> None:
    async with asyncio.timeout(SECONDS):
        await stream.wait_until_settled()


async def test_published_lines_are_settled_and_forgotten(open_exchange: Open) -> None:
    exchange = open_exchange()
    async with exchange.publisher(), exchange.client as client:
        stream = client.stream(Origin.REPLAY, {"request_id": "r"})
        await stream.publish(lines(1, 2, 3), mark=3)
        await settled(stream)
        assert stream.settled_mark == 3
        stream.close()
        assert stream.is_done
    assert exchange.stored == expected_ids(lines(1, 2, 3))
    assert exchange.sinks[0].stored[0].series.meta == {"request_id": "r"}


async def test_frames_of_a_dead_publisher_go_to_the_next_with_the_same_identities(
    open_exchange: Open,
) -> None:
    # The chunks meet at second 3: ordinals must count on from what the dead publisher settled.
    first, second, third = lines(1, 2, 3, 3), lines(3, 3, 4), lines(4, 5)
    exchange = open_exchange()
    async with exchange.client as client:
        stream = client.stream(Origin.REPLAY, {})
        async with exchange.publisher():
            await stream.publish(first, 1)
            await settled(stream)
        await stream.publish(second, 2)
        async with exchange.publisher():
            await settled(stream)
            assert stream.settled_mark == 2
        async with exchange.publisher():
            await stream.publish(third, 3)
            await settled(stream)
    assert exchange.stored == expected_ids(first, second, third)
    assert len(set(exchange.stored)) == 9


async def test_frames_that_were_not_settled_are_sent_again(open_exchange: Open) -> None:
    exchange = open_exchange(overflow="block", spool_max_bytes=0)
    chunk = lines(1, 2, 3)
    async with exchange.client as client:
        stream = client.stream(Origin.REPLAY, {})

        def take_down(sink: MemorySink) -> None:
            sink.is_down = True

        async with exchange.publisher(take_down) as bus:
            await stream.publish(chunk)
            await until(lambda: bus.outbox.queued == 3)
            assert not stream.is_settled
        async with exchange.publisher():
            await settled(stream)
    assert exchange.stored == expected_ids(chunk)


async def test_full_window_waits_its_budget_once_then_loses_and_says_so(
    open_exchange: Open,
) -> None:
    exchange = open_exchange(queue_max_bytes=1 << 20, replay_max_block_ms=1500)
    chunk = lines(*range(3000))
    assert len(chunk) < 1 << 20
    async with exchange.client as client:
        stream = client.stream(Origin.REPLAY, {})
        await stream.publish(chunk)
        started = time.monotonic()
        for _ in range(6):
            await stream.publish(chunk)
        # Not six times: once a wait was in vain, nobody waits again.
        assert 1.4 < time.monotonic() - started < 6 * 1.5
        async with exchange.publisher() as bus:
            await settled(stream)
            await until(lambda: bus.meter.totals.dropped > 0)
            published = bus.meter.totals.published
            assert published + bus.meter.totals.dropped == 7 * 3000
            assert published >= 3000


async def test_real_time_stream_never_waits(open_exchange: Open) -> None:
    exchange = open_exchange(queue_max_bytes=1 << 20, replay_max_block_ms=10 * SECONDS * 1000)
    chunk = lines(*range(3000))
    async with exchange.client as client:
        stream = client.stream(Origin.REALTIME, {})
        async with asyncio.timeout(SECONDS):
            for _ in range(10):
                await stream.publish(chunk)
        async with exchange.publisher():
            await settled(stream)


async def test_stream_that_must_not_lose_anything_waits_for_the_publisher(
    open_exchange: Open,
) -> None:
    exchange = open_exchange(queue_max_bytes=1 << 20, replay_max_block_ms=0)
    chunk = lines(*range(3000))
    async with exchange.client as client:
        stream = client.stream(Origin.REPLAY, {}, waits=True)

        async def publish() -> None:
            for _ in range(6):
                await stream.publish(chunk)

        publishing = asyncio.create_task(publish())
        await asyncio.sleep(0.05)
        assert not publishing.done()
        async with exchange.publisher() as bus:
            async with asyncio.timeout(SECONDS):
                await publishing
            await settled(stream)
            assert bus.meter.totals.dropped == 0
    assert len(exchange.stored) == 18_000


async def test_replay_waits_for_a_full_bus_once_per_outage(open_exchange: Open) -> None:
    exchange = open_exchange(
        overflow="block",
        spool_max_bytes=0,
        queue_max_messages=10,
        replay_max_block_ms=1500,
    )

    def take_down(sink: MemorySink) -> None:
        sink.is_down = True

    async with exchange.client as client, exchange.publisher(take_down) as bus:
        stream = client.stream(Origin.REPLAY, {})
        started = time.monotonic()
        for number in range(20):
            await stream.publish(lines(*range(number * 10, number * 10 + 10)))
        await until(lambda: bus.meter.totals.dropped == 190)
        assert 1.4 < time.monotonic() - started < 20 * 1.5
        exchange.sinks[0].is_down = False
        await settled(stream)
        assert bus.meter.totals.published == 10


async def test_line_that_cannot_be_read_is_lost_alone(open_exchange: Open) -> None:
    exchange = open_exchange()
    async with exchange.publisher(), exchange.client as client:
        stream = client.stream(Origin.REPLAY, {})
        await stream.publish(b"not json\n" + lines(1))
        await settled(stream)
    assert exchange.stored == expected_ids(lines(1))


def test_tail_is_the_last_lines_of_one_local_time() -> None:
    chunk = lines(1, 2, 2, 2)
    assert tail_of(chunk) == b"".join(chunk.splitlines(keepends=True)[1:])
    assert tail_of(lines(1)) == lines(1)
    assert tail_of(lines(5, 5)) == lines(5, 5)
    assert tail_of(b"") == b""
