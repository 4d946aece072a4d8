"""What libraries keep for reuse is made anew, and nothing that counts changes."""

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

import msgspec
import pytest
from aiohttp.helpers import NO_EXTENSIONS, must_be_empty_body
from yarl import URL

from tardis_machine.app.collector import regular_collection
from tardis_machine.app.reuse import POOL_BYTES, Reuse, _take_free_places, frames_queue
from tardis_machine.telemetry.metrics import Metrics

DEADLINE_SECONDS = 120
CROWD = 500
READS = 8
"""The HTTP library keeps the state of so many."""


class Failing(Reuse):
    """A library that has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def renew(self) -> None:
        self.calls += 1
        raise TypeError("no such thing")


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics()
    made.server.requests.labels("/replay", "200").inc(3)
    made.server.busy_refusals.inc(2)
    made.server.first_message.labels("/replay").observe(0.5)
    return made


async def test_values_of_metrics_stay(metrics: Metrics) -> None:
    before = [sample for family in metrics.registry.collect() for sample in family.samples]
    reuse = Reuse(metrics.values)
    reuse.renew()
    after = [sample for family in metrics.registry.collect() for sample in family.samples]
    assert after == before
    assert len(list(metrics.values())) > 3


async def test_addresses_that_clients_asked_for_are_forgotten() -> None:
    reuse = Reuse()
    kept = URL("/replay?options=kept", encoded=True)
    assert URL("/replay?options=kept", encoded=True) is kept
    reuse.renew()
    assert URL("/replay?options=kept", encoded=True) is not kept


async def test_answers_of_the_http_library_are_forgotten() -> None:
    assert not must_be_empty_body("GET", 503)
    Reuse().renew()
    assert must_be_empty_body.cache_info().currsize == 0


async def test_names_that_the_json_decoder_met_are_forgotten() -> None:
    kept = next(iter(msgspec.json.decode(b'{"a name": 0}')))
    assert next(iter(msgspec.json.decode(b'{"a name": 0}'))) is kept
    Reuse().renew()
    assert next(iter(msgspec.json.decode(b'{"a name": 0}'))) is not kept


def places_of_reads() -> set[int]:
    """Return where the state of calls that read a WebSocket lies."""
    reads = [frames_queue().read() for _ in range(READS)]
    places = {id(held) for read in reads for held in gc.get_referents(read) if "scope" in str(held)}
    for read in reads:
        read.close()
    return places


@pytest.mark.skipif(NO_EXTENSIONS, reason="The HTTP library keeps them only where it is compiled.")
async def test_state_of_websocket_reads_is_made_anew() -> None:
    places = places_of_reads()
    assert places
    assert places_of_reads() & places
    Reuse().renew()
    assert not places_of_reads() & places


async def test_tables_keep_no_room_for_those_who_left() -> None:
    async def generator() -> AsyncGenerator[None, None]:
        yield

    table = asyncio.get_running_loop()._asyncgens.data  # type: ignore[attr-defined]
    async with AsyncExitStack() as crowd:
        for _ in range(CROWD):
            await anext(await crowd.enter_async_context(aclosing(generator())))
        assert len(table) == CROWD
    assert sys.getsizeof(table) > 16 * CROWD
    Reuse().renew()
    assert sys.getsizeof(table) < CROWD


def test_no_free_place_is_left_between_others() -> None:
    size = 400
    crowd = [bytes(size) for _ in range(4 * CROWD)]
    kept = crowd[::100]
    crowd.clear()
    gc.collect()
    taken = _take_free_places()
    made = [bytes(size) for _ in range(100)]
    assert taken
    pools, others = ({id(each) // POOL_BYTES for each in held} for held in (made, kept))
    assert not pools & others


async def test_cancelled_timers_are_forgotten() -> None:
    loop, reuse = asyncio.get_running_loop(), Reuse()
    timers = [loop.call_later(3600, gc.collect) for _ in range(50)]
    for timer in timers:
        timer.cancel()
    reuse.renew()
    await asyncio.sleep(0.01)
    assert all(len(gc.get_referrers(timer)) == 1 for timer in timers)


async def test_collection_goes_on_when_a_library_has_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing = Failing()
    async with regular_collection(failing, every_seconds=0.001), asyncio.timeout(DEADLINE_SECONDS):
        while "not renewed" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        collections = gc.get_stats()[2]["collections"]
        while gc.get_stats()[2]["collections"] < collections + 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert failing.calls == 1
