"""What the kernel holds for a client, how long, and how much of it the client has taken."""

import asyncio
import socket
import struct
from asyncio.sslproto import SSLProtocol

UNSENT_BYTES = 32 * 1024
"""What this process and the kernel each hold for a client, where there are many of them."""

KERNEL_SECONDS = 30.0
"""How much longer than we the kernel waits for a slow client; its clock runs while we are busy."""

READ_BYTES = 16 * 1024
"""Read from one client at once. Of one that sends without end so much is worked on before others
have their turn; asyncio takes 256 KiB, which is thousands of frames or tiny chunks."""

TLS_BUFFER_BYTES = 32 * 1024
"""What every TLS connection has as long as it is open, for two records; asyncio has 256 KiB."""

KEEP_ALIVE_SECONDS = 30
"""How often the kernel asks whether a client that has closed its side is there. The kernel of one
that is gone remembers the connection for a minute, and resets it from then on."""

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


def notice_absence(transport: asyncio.BaseTransport) -> None:
    """Let the kernel ask for a client that has closed its side, while nothing is sent to it."""
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_KEEPIDLE"):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEP_ALIVE_SECONDS)


def is_reset(transport: asyncio.BaseTransport) -> bool:
    """Say whether the client has reset a connection; asyncio sees that only where it reads."""
    connection = transport.get_extra_info("socket")
    return connection is not None and bool(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    )


def limit_unsent(transport: asyncio.WriteTransport) -> None:
    """Hold little for a client that may read nothing, here and in the kernel.

    What is on its way to a client that reads does not count. It costs CPU, so that it is done only
    where there are many clients.
    """
    transport.set_write_buffer_limits(high=UNSENT_BYTES)
    encrypted = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    if encrypted is not None:
        # What is encrypted waits in a queue of its own.
        encrypted.set_write_buffer_limits(high=UNSENT_BYTES)
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)


def limit_reading(transport: asyncio.BaseTransport) -> None:
    """Take little at once from a client, so that others have their turn soon."""
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES


def limit_tls_buffers() -> None:
    """Let TLS connections of this process that are made from now on have small buffers."""
    SSLProtocol.max_size = TLS_BUFFER_BYTES
