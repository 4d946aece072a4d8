"""Garbage with cycles goes within seconds, and an embedding process gets its collector back."""

import asyncio
import gc
import weakref

from tardis_machine.app.collector import THRESHOLDS, regular_collection

DEADLINE_SECONDS = 120


class Node:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.me = self


async def test_cycles_are_collected_while_the_body_runs() -> None:
    gone = asyncio.Event()
    async with regular_collection(every_seconds=0.001), asyncio.timeout(DEADLINE_SECONDS):
        weakref.finalize(Node(), gone.set)
        await gone.wait()


async def test_collector_is_as_before_afterwards() -> None:
    before = gc.get_threshold()
    async with regular_collection():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
