"""Entry point of the publisher process.

`python -m tardis_machine.app.publishing.process <doorbell> <control>`

The two descriptors are a datagram socket, on which writers say that something was written, and a
channel to the parent.
"""

import asyncio
import math
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from tardis_machine.app.collector import regular_collection
from tardis_machine.app.open_files import raise_file_limit
from tardis_machine.app.publishing.bootstrap import Bootstrap
from tardis_machine.sinks.delivery.bus import Bus
from tardis_machine.sinks.delivery.sender import FAILED_EXIT
from tardis_machine.sinks.publisher.address import PublisherAddress
from tardis_machine.sinks.publisher.protocol import (
    ALIVE,
    BUS_NOT_REACHED,
    DRAIN,
    EVENTS_LOST,
    FAILED,
    MAX_MESSAGE_BYTES,
    NOW,
    READY,
    REPORT,
    FinalReport,
)
from tardis_machine.sinks.publisher.publisher import Publisher, open_publisher
from tardis_machine.sinks.publisher.shared_file import SharedFile
from tardis_machine.sinks.storage.directory import LogReader
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.logs import configure_logs

log = get_logger("tardis_machine.app.publishing.process")

STOP_SECONDS = 2.0
"""Timeout for a bus to close its client."""
FIND_SECONDS = 0.25
"""How often logs of new writers are looked for, and the status is written."""
TIDY_SECONDS = 1.0
WARN_SECONDS = 30.0
BEAT_SECONDS = 1.0
ORPHAN_SECONDS = 5.0
"""How long to deliver what is left after the parent died: its successor reads on from there."""


class Control:
    """What the parent asks for; its death asks for a drain too."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self.drain = asyncio.Event()
        self.now = asyncio.Event()
        self.is_orphan = False
        """The parent is gone; the next one waits for what we read."""

    async def listen(self) -> None:
        """Take messages until the parent is gone."""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while message := await loop.sock_recv(self._channel, MAX_MESSAGE_BYTES):
                self.drain.set()
                if message == NOW:
                    self.now.set()
                assert message in (DRAIN, NOW)
        self.is_orphan = True
        self.drain.set()

    def tell(self, message: bytes) -> None:
        """Send the parent a message, if it is still there."""
        with suppress(OSError):
            self._channel.send(message)


async def run(
    bell: socket.socket,
    channel: socket.socket,
    bootstrap: Bootstrap,
    address: PublisherAddress,
    *,
    is_first: bool,
) -> int:
    """Publish until the parent asks for the end; return the exit code."""
    control = Control(channel)
    take_over_spools(bootstrap, address.root)
    publisher = open_publisher(bootstrap.publishing, address.root, address.instance, system_clock)
    publisher.start()
    listening = asyncio.create_task(control.listen(), name="control")
    try:
        # A publisher that died is started again whether or not its buses are there.
        if is_first and (missing := await unreached(publisher.buses)):
            control.tell(FAILED + missing.encode())
            await stop(publisher)
            return BUS_NOT_REACHED
        async with (
            regular_collection(),
            beating(publisher, control),
            attended(publisher, bell, address.status),
        ):
            control.tell(READY)
            await control.drain.wait()
            await drain(publisher, control)
        report(publisher, control)
        lost = publisher.lost
        publisher.close()
        return EVENTS_LOST if lost else 0
    finally:
        listening.cancel()


def take_over_spools(bootstrap: Bootstrap, root: Path) -> None:
    """Move what the version before left on disk to logs, before anything is read."""
    if not any(any(place.glob("*/spool/*")) for place in bootstrap.old_places):
        return
    # Once in the life of an installation, so no other start loads it.
    from tardis_machine.sinks.publisher.old_spools import move_old_spools

    publishing = bootstrap.publishing
    readers = [LogReader(bus.bus, bus.endpoint) for bus in publishing.active]
    move_old_spools(bootstrap.old_places, root, readers, publishing.event_bus.producer_id)


@asynccontextmanager
async def beating(publisher: Publisher, control: Control) -> AsyncIterator[None]:
    """Tell the parent again and again that the process does not hang, while the body runs."""

    async def beat() -> None:
        while True:
            control.tell(ALIVE)
            end_if_stuck(publisher.buses)
            await asyncio.sleep(BEAT_SECONDS)

    task = asyncio.create_task(beat(), name="heartbeat")
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def attended(
    publisher: Publisher, bell: socket.socket, status: SharedFile
) -> AsyncIterator[None]:
    """Hear the doorbell, look for logs, tidy up and write the status while the body runs."""
    loop = asyncio.get_running_loop()
    loop.add_reader(bell, hear, bell, publisher)
    is_over = threading.Event()
    keeping = asyncio.create_task(
        asyncio.to_thread(keep_house, publisher, status, is_over), name="housekeeping"
    )
    keeping.add_done_callback(end_if_failed)
    try:
        yield
    finally:
        loop.remove_reader(bell)
        is_over.set()
        await keeping


def hear(bell: socket.socket, publisher: Publisher) -> None:
    """Take all rings at once, and wake the buses."""
    with suppress(BlockingIOError):
        while bell.recv(16):
            pass
    publisher.ring()


def keep_house(publisher: Publisher, status: SharedFile, is_over: threading.Event) -> None:
    """Look for logs, write the status and delete what is done with, again and again."""
    tidied_at, warned_at = time.monotonic(), -math.inf
    while not is_over.wait(FIND_SECONDS):
        now = time.monotonic()
        try:
            publisher.find_logs()
            if now - tidied_at >= TIDY_SECONDS:
                tidied_at = now
                publisher.tidy()
        except OSError as error:
            # No room, files or memory for now: the next round may have it.
            if now - warned_at >= WARN_SECONDS:
                warned_at = now
                log.warning(
                    "search for new logs or deletion of old ones failed; retrying", error=str(error)
                )
        write_status(publisher, status)
    write_status(publisher, status)


def end_if_stuck(buses: Sequence[Bus]) -> None:
    """End the process when the client of a bus never returns: it is started again."""
    for bus in buses:
        if bus.is_stuck:
            log.error("bus client does not return from a call; the process ends", bus=bus.name)
            os._exit(FAILED_EXIT)


def end_if_failed(task: asyncio.Task[None]) -> None:
    """End the process after an error that no code expects: it is started again."""
    if not task.cancelled() and (error := task.exception()):
        log.error("publisher failed; the process ends", exc_info=error)
        os._exit(FAILED_EXIT)


def write_status(publisher: Publisher, file: SharedFile) -> None:
    """Tell servers how publishing is doing; where that cannot be written, they see its age."""
    with suppress(OSError):
        file.write(msgspec.msgpack.encode(publisher.status()))


async def unreached(buses: Sequence[Bus]) -> str | None:
    """Wait for the buses that are required; say which ones were not reached, and why."""
    started = time.monotonic()
    missing = []
    for bus in buses:
        if bus.delivery.startup != "require":
            continue
        left = started + bus.delivery.startup_timeout_ms / 1000 - time.monotonic()
        if not await asyncio.to_thread(bus.wait_until_open, max(0.0, left)):
            reason = bus.status().last_error or "no answer"
            missing.append(f"{bus.settings.title} is required and was not reached: {reason}")
    return "\n".join(missing) or None


async def drain(publisher: Publisher, control: Control) -> None:
    """Deliver what is left within the budget; the rest stays in the log."""
    buses = publisher.buses
    for bus in buses:
        bus.drain()
    seconds = max(bus.delivery.drain_timeout_ms for bus in buses) / 1000
    if control.is_orphan:
        seconds = min(seconds, ORPHAN_SECONDS)
    delivery = asyncio.create_task(deliver_all(publisher))
    hurry = asyncio.create_task(control.now.wait())
    await asyncio.wait({delivery, hurry}, timeout=seconds, return_when="FIRST_COMPLETED")
    for task in (delivery, hurry):
        task.cancel()
    await stop(publisher)


async def deliver_all(publisher: Publisher) -> None:
    """Wait until all writers have ended and every bus has delivered what they wrote."""
    while publisher.has_writers:  # noqa: ASYNC110 - they are other processes
        await asyncio.sleep(FIND_SECONDS / 10)
    # A writer that came and went since is found within this time.
    await asyncio.sleep(2 * FIND_SECONDS)
    for bus in publisher.buses:
        bus.finish()
    for bus in publisher.buses:
        await asyncio.to_thread(bus.wait_until_drained)


async def stop(publisher: Publisher) -> None:
    """Stop every bus, all at the same time."""
    await asyncio.gather(*(asyncio.to_thread(bus.stop, STOP_SECONDS) for bus in publisher.buses))


def report(publisher: Publisher, control: Control) -> None:
    """Log what became of the events of each bus, and tell the parent."""
    reports = {}
    for bus in publisher.buses:
        status = bus.status()
        left = status.queued + status.parked
        reports[bus.name] = FinalReport(status.totals, left)
        log.info(
            "publisher stopped",
            bus=bus.name,
            delivered=status.totals.published,
            left=left,
            dead=status.totals.dead,
            dropped=status.totals.dropped,
        )
    control.tell(REPORT + msgspec.json.encode(reports))


def main() -> None:
    """Take settings from the parent, then publish until it asks for the end."""
    # A terminal sends Ctrl-C to every process; the parent passes on what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with (
        socket.socket(fileno=int(sys.argv[1])) as bell,
        socket.socket(fileno=int(sys.argv[2])) as channel,
    ):
        # The parent is ours and passes what it was started with.
        bootstrap, address, is_first = pickle.loads(channel.recv(MAX_MESSAGE_BYTES))  # noqa: S301
        configure_logs(bootstrap.logs)
        raise_file_limit()
        channel.setblocking(False)
        sys.exit(asyncio.run(run(bell, channel, bootstrap, address, is_first=is_first)))


if __name__ == "__main__":
    main()
