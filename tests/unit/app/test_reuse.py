"""What libraries keep for reuse is made anew, and nothing that counts changes."""

import asyncio
import gc

import pytest
from yarl import URL

from tardis_machine.app.collector import regular_collection
from tardis_machine.app.reuse import Reuse
from tardis_machine.telemetry.metrics import Metrics

DEADLINE_SECONDS = 120


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
