"""The inside of one worker process: connections come from the parent."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from tardis_machine.server.listeners import Port, open_ports
from tardis_machine.server.services import Services
from tardis_machine.server.workers import HTTP, READY
from tardis_machine.telemetry.loggers import get_logger

REPORT_SECONDS = 0.5

log = get_logger(__name__)


async def serve_passed_connections(
    channel: socket.socket, services: Services, share_metrics: Callable[[], object]
) -> None:
    """Serve the connections the parent passes, until it closes the channel."""
    channel.setblocking(False)
    async with open_ports(services) as (http, ws), asyncio.TaskGroup() as tasks:
        report = tasks.create_task(_report(channel, share_metrics, http, ws))
        # From the first request on, any worker answers for all.
        share_metrics()
        await asyncio.get_running_loop().sock_sendall(channel, READY)
        while passed := await _receive(channel):
            port, connection = passed
            tasks.create_task((http if port == HTTP else ws).adopt(connection))
        report.cancel()


async def _receive(channel: socket.socket) -> tuple[bytes, socket.socket] | None:
    """Wait for the next connection; None when the parent has closed the channel."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(channel, readable.set)
    try:
        while True:
            await readable.wait()
            readable.clear()
            try:
                port, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
            except BlockingIOError:
                continue
            except ConnectionError:
                return None
            if not port:
                return None
            if descriptors:
                return port, socket.socket(fileno=descriptors[0])
            # The kernel discards the passed descriptor when the process is at its limit.
            log.error("connection dropped: too many open files")
    finally:
        loop.remove_reader(channel)


async def _report(
    channel: socket.socket, share_metrics: Callable[[], object], *ports: Port
) -> None:
    """Report open connections to the parent, and metrics to the other workers."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        share_metrics()
        load = sum(port.load for port in ports)
        # The receiving task notices when the parent has exited.
        with suppress(ConnectionError):
            await loop.sock_sendall(channel, str(load).encode())
