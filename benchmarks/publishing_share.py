"""How much of the publisher's CPU is spent inside a client library, by samples of its threads."""

import asyncio
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from tardis_machine.app.wiring import system_clock
from tardis_machine.bronze.envelope import Origin
from tardis_machine.sinks.frames import StreamContext
from tardis_machine.sinks.publisher import Publisher, open_publisher
from tardis_machine.sinks.registry import PublishingSettings
from tardis_machine.sinks.tickets import Ticket

SAMPLE_SECONDS = 0.002
WAITING = (
    "selectors.py",
    "threading.py",
    "queue.py",
    "concurrent/futures",
    "asyncio/base_events.py",
)
OURS = "tardis_machine"


def client_share(settings: PublishingSettings, folder: Path, chunks: list[bytes]) -> float:
    """Return the share of busy samples that are inside foreign code called by the sink."""
    counts: Counter[str] = Counter()
    ended = threading.Event()
    sampler = threading.Thread(target=sample, args=(counts, ended, threading.get_ident()))
    sampler.start()
    try:
        asyncio.run(publish_here(settings, folder, chunks))
    finally:
        ended.set()
        sampler.join()
    return counts["client"] / max(1, counts.total())


async def publish_here(settings: PublishingSettings, folder: Path, chunks: list[bytes]) -> None:
    """Publish in this process, so that its threads can be looked at."""
    publisher = open_publisher(settings, folder, system_clock)
    publisher.start()
    context = StreamContext(producer_id="bench", origin=Origin.REPLAY, meta={}, waits=True)
    stream = publisher.stream(context)
    done = threading.Event()
    ticket = Ticket(done.set)
    for chunk in chunks:
        await stream.publish(chunk, ticket)
    ticket.complete()
    await asyncio.to_thread(done.wait)
    stop(publisher)


def stop(publisher: Publisher) -> None:
    for bus in publisher.buses:
        bus.stop(5)


def sample(counts: Counter[str], ended: threading.Event, main_thread: int) -> None:
    """Look at all other threads again and again, and note whose code is running."""
    own = threading.get_ident()
    while not ended.is_set():
        time.sleep(SAMPLE_SECONDS)
        for thread, frame in sys._current_frames().items():
            if thread != own and (kind := kind_of(frame)):
                counts[kind] += 1


def kind_of(frame: FrameType) -> str | None:
    """Return whose code a stack is in; None when it waits."""
    top: FrameType | None = frame
    if any(part in frame.f_code.co_filename for part in WAITING):
        return None
    while top is not None:
        name = top.f_code.co_filename
        if OURS in name and "site-packages" not in name:
            return "ours" if top is frame or not is_client(frame) else "client"
        top = top.f_back
    return "client" if is_client(frame) else None


def is_client(frame: FrameType) -> bool:
    """Say whether foreign code is between the top of a stack and ours."""
    return "site-packages" in frame.f_code.co_filename and "msgspec" not in frame.f_code.co_filename
