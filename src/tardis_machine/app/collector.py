"""When Python looks for garbage: seldom while records flow, regularly all the same."""

import asyncio
import ctypes
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tardis_machine.telemetry.loggers import get_logger

if TYPE_CHECKING:
    from tardis_machine.app.reuse import Reuse

log = get_logger(__name__)

THRESHOLDS = (50_000, 20, 100)
"""Chunks make many short-lived lists and no cycles; the default thresholds cost 10 % of the CPU."""

COLLECT_SECONDS = 10.0
"""A client that leaves early, or a bus that fails, leaves cycles behind, with the chunks in them.
They are few, so the thresholds alone would let them pile up."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MAPPED_BYTES = 2 * 1024 * 1024
"""Buffers of this size are mapped, and gone when freed: the windows of decompressors, no chunks."""

KEPT_BYTES = 16 * 1024 * 1024
"""Free memory at the end of the heap that is kept between two collections."""


@asynccontextmanager
async def regular_collection(
    reuse: "Reuse | None" = None, *, every_seconds: float = COLLECT_SECONDS
) -> AsyncIterator[None]:
    """Collect garbage every few seconds while the body runs, and seldom in between."""
    thresholds = gc.get_threshold()
    if reuse is not None:
        await reuse.prepare()
    gc.collect()
    # What is there now lives as long as the process.
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    collecting = asyncio.create_task(
        _collect_regularly(reuse, every_seconds), name="garbage collection"
    )
    try:
        yield
    finally:
        collecting.cancel()
        await asyncio.wait([collecting])
        gc.set_threshold(*thresholds)
        gc.unfreeze()


async def _collect_regularly(reuse: "Reuse | None", every_seconds: float) -> None:
    give_back = _memory_returner()
    while True:
        await asyncio.sleep(every_seconds)
        gc.collect()
        if reuse is not None and not _renewed(reuse):
            reuse = None
        give_back()


def _renewed(reuse: "Reuse") -> bool:
    """Say whether what is kept for reuse was made anew; a library may have changed."""
    try:
        reuse.renew()
    except Exception:
        log.exception("objects kept for reuse were not renewed; memory of many clients stays")
        return False
    # Python's own free lists have what was taken apart.
    gc.collect()
    return True


def _memory_returner() -> Callable[[], object]:
    """Return what gives free memory back to the system.

    glibc keeps what many streams needed for ever when something small lies behind it. It also takes
    large buffers from there once it has seen one freed; told a size, it goes on mapping them.
    """
    libc = ctypes.CDLL(None)
    trim, set_option = getattr(libc, "malloc_trim", None), getattr(libc, "mallopt", None)
    if trim is None or set_option is None:
        return lambda: None
    set_option(M_MMAP_THRESHOLD, MAPPED_BYTES)
    set_option(M_TRIM_THRESHOLD, KEPT_BYTES)
    return lambda: trim(0)
