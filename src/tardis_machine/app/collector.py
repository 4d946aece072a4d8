"""When Python looks for garbage: seldom while records flow, regularly all the same."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

THRESHOLDS = (50_000, 20, 100)
"""Chunks make many short-lived lists and no cycles; the default thresholds cost 10 % of the CPU."""

COLLECT_SECONDS = 10.0
"""A client that leaves early, or a bus that fails, leaves cycles behind, with the chunks in them.
They are few, so the thresholds alone would let them pile up."""


@asynccontextmanager
async def regular_collection(every_seconds: float = COLLECT_SECONDS) -> AsyncIterator[None]:
    """Collect garbage every few seconds while the body runs, and seldom in between."""
    thresholds = gc.get_threshold()
    gc.collect()
    # What is there now lives as long as the process.
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    collecting = asyncio.create_task(_collect_regularly(every_seconds), name="garbage collection")
    try:
        yield
    finally:
        collecting.cancel()
        await asyncio.wait([collecting])
        gc.set_threshold(*thresholds)
        gc.unfreeze()


async def _collect_regularly(every_seconds: float) -> None:
    while True:
        await asyncio.sleep(every_seconds)
        gc.collect()
