"""Entry point of the publisher process.

`python -m tardis_machine.app.publishing.process <listener> <channel>`

The two descriptors are a listening Unix socket, where servers connect, and a channel to the parent.
"""

import asyncio
import pickle
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from tardis_machine.app.collector import regular_collection
from tardis_machine.app.publishing.bootstrap import Bootstrap
from tardis_machine.sinks.bus import Bus
from tardis_machine.sinks.publisher import open_publisher
from tardis_machine.sinks.publisher_server import PublisherServer
from tardis_machine.sinks.supervisor import (
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
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.logs import configure_logs

log = get_logger("tardis_machine.app.publishing.process")

STOP_SECONDS = 2.0
"""Timeout for a bus to close its client."""


class Control:
    """What the parent asks for; its death asks for a drain too."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self.drain = asyncio.Event()
        self.now = asyncio.Event()

    async def listen(self) -> None:
        """Take messages until the parent is gone."""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while message := await loop.sock_recv(self._channel, MAX_MESSAGE_BYTES):
                self.drain.set()
                if message == NOW:
                    self.now.set()
                assert message in (DRAIN, NOW)
        self.drain.set()

    def tell(self, message: bytes) -> None:
        """Send the parent a message, if it is still there."""
        with suppress(OSError):
            self._channel.send(message)


async def run(listener: socket.socket, channel: socket.socket, bootstrap: Bootstrap) -> int:
    """Publish until the parent asks for the end; return the exit code."""
    control = Control(channel)
    publisher = open_publisher(bootstrap.publishing, bootstrap.directory, system_clock)
    publisher.start()
    buses = publisher.buses
    listening = asyncio.create_task(control.listen(), name="control")
    try:
        if missing := await unreached(buses):
            control.tell(FAILED + missing.encode())
            await stop(buses)
            return BUS_NOT_REACHED
        server = PublisherServer(publisher)
        async with regular_collection(), server.listen(listener):
            control.tell(READY)
            await control.drain.wait()
            await drain(server, buses, control)
        report(buses, control)
        return EVENTS_LOST if publisher.lost else 0
    finally:
        listening.cancel()


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


async def drain(server: PublisherServer, buses: Sequence[Bus], control: Control) -> None:
    """Deliver what is left within the budget; put the rest on disk."""
    for bus in buses:
        bus.drain()
    seconds = max(bus.delivery.drain_timeout_ms for bus in buses) / 1000
    delivery = asyncio.create_task(deliver_all(server, buses))
    hurry = asyncio.create_task(control.now.wait())
    await asyncio.wait({delivery, hurry}, timeout=seconds, return_when="FIRST_COMPLETED")
    for task in (delivery, hurry):
        task.cancel()
    server.stop_reading()
    await stop(buses)
    server.send_status()
    with suppress(TimeoutError):
        await asyncio.wait_for(server.wait_until_gone(), STOP_SECONDS)


async def deliver_all(server: PublisherServer, buses: Sequence[Bus]) -> None:
    """Wait until servers have sent everything and every bus has delivered it."""
    await server.wait_until_left()
    for bus in buses:
        bus.finish()
    for bus in buses:
        await asyncio.to_thread(bus.wait_until_drained)


async def stop(buses: Sequence[Bus]) -> None:
    """End every bus."""
    await asyncio.gather(*(asyncio.to_thread(bus.stop, STOP_SECONDS) for bus in buses))


def report(buses: Sequence[Bus], control: Control) -> None:
    """Log the final counts of every bus, and send them to the parent process."""
    reports = {}
    for bus in buses:
        totals, spooled = bus.meter.totals, bus.outbox.spooled
        reports[bus.name] = FinalReport(totals, spooled)
        log.info(
            "publisher stopped",
            bus=bus.name,
            delivered=totals.published,
            spooled=spooled,
            dead=totals.dead,
            dropped=totals.dropped,
        )
    control.tell(REPORT + msgspec.json.encode(reports))


def main() -> None:
    """Take settings from the parent, then publish until it asks for the end."""
    # A terminal sends Ctrl-C to every process; the parent passes on what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with (
        socket.socket(fileno=int(sys.argv[1])) as listener,
        socket.socket(fileno=int(sys.argv[2])) as channel,
    ):
        # The parent is ours and passes what it was started with.
        bootstrap: Bootstrap = pickle.loads(channel.recv(MAX_MESSAGE_BYTES))  # noqa: S301
        configure_logs(bootstrap.logs)
        listener.setblocking(False)
        channel.setblocking(False)
        sys.exit(asyncio.run(run(listener, channel, bootstrap)))


if __name__ == "__main__":
    main()
