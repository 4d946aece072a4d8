"""What the kernel holds for a client, how long, and how much of it the client has taken."""

import asyncio
import socket
import struct

UNSENT_BYTES = 32 * 1024
"""What this process and the kernel each hold for a client, where there are many of them."""

KERNEL_SECONDS = 30.0
"""How much longer than we the kernel waits for a slow client; its clock runs while we are busy."""

_ACKNOWLEDGED = struct.Struct("=120xQ")
"""`tcpi_bytes_acked` of Linux's `struct tcp_info`."""


def acknowledged_bytes(transport: asyncio.BaseTransport) -> int | None:
    """Return how many bytes the peer's kernel has taken so far, None where that is not known."""
    connection = transport.get_extra_info("socket")
    if connection is None or not hasattr(socket, "TCP_INFO"):
        return None
    try:
        information = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKNOWLEDGED.size)
        (acknowledged,) = _ACKNOWLEDGED.unpack(information)
    except (OSError, struct.error):
        return None
    return int(acknowledged)


def limit_silence(transport: asyncio.BaseTransport, seconds: float) -> None:
    """Let the kernel end a connection whose peer takes nothing of what was sent to it.

    Linux counts a peer that is alive but does not read, too. The time is longer than that of a slow
    client, so that those that we wait for are dropped and counted by us.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        patience_ms = int((seconds + KERNEL_SECONDS) * 1000)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience_ms)


def limit_unsent(transport: asyncio.WriteTransport) -> None:
    """Hold little for a client that may read nothing, here and in the kernel.

    What is on its way to a client that reads does not count. It costs CPU, so that it is done only
    where there are many clients.
    """
    transport.set_write_buffer_limits(high=UNSENT_BYTES)
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
