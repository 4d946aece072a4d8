"""A TCP proxy that can cut, delay, hold, swallow, forget and refuse; it knows no protocol."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from tests.servers.threaded import ServerThread
from tests.servers.tls import Certificates

CHUNK_BYTES = 65_536
LINGER_RESET = struct.pack("ii", 1, 0)


class Flow(StrEnum):
    """One of the two ways through the proxy."""

    REQUESTS = "requests"
    REPLIES = "replies"


BOTH = (Flow.REQUESTS, Flow.REPLIES)


@dataclass
class FlowControl:
    """What happens to the bytes of one flow, on every connection."""

    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    delay_seconds: float = 0.0
    is_swallowing: bool = False
    cut_after_bytes: int | None = None
    passed_bytes: int = 0
    swallowed_bytes: int = 0

    def __post_init__(self) -> None:
        self.is_open.set()

    async def admit(self, data: bytes) -> bytes:
        """Return the part of `data` that may pass, when it may pass."""
        await self.is_open.wait()
        if self.delay_seconds > 0:
            await asyncio.sleep(self.delay_seconds)
        if self.is_swallowing:
            self.swallowed_bytes += len(data)
            return b""
        if self.cut_after_bytes is not None:
            data = data[: self.cut_after_bytes]
            self.cut_after_bytes -= len(data)
        self.passed_bytes += len(data)
        return data


class Link:
    """One connection through the proxy."""

    is_forgotten = False


class TcpProxy(ServerThread):
    """Forward connections to `target` and break them on request.

    `stop` refuses connections, `start` takes them again. Every fault stays until `heal`.

    Args:
        target: Host and port of the server.
        port: To listen on; None: any that is free.
        certificates: Speak TLS with the clients; the server speaks without.
    """

    def __init__(
        self, target: str, *, port: int | None = None, certificates: Certificates | None = None
    ) -> None:
        super().__init__(port=port)
        self._target = target
        self._tls = certificates and server_context(certificates)
        self._controls = {flow: FlowControl() for flow in Flow}
        self._links: set[Link] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.connections_total = 0

    async def open(self) -> None:
        """Listen on the port."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._tls
        )

    async def shut(self) -> None:
        """Refuse new connections and reset the open ones."""
        assert self._server is not None
        self._server.close()
        self._reset_all()

    def cut(self) -> None:
        """Reset every open connection; new ones are welcome."""
        self.do(self._reset_all)

    def forget(self) -> None:
        """Let every open connection lead nowhere for ever, without a word to either side."""

        def forget_all() -> None:
            for link in self._links:
                link.is_forgotten = True

        self.do(forget_all)

    def pause(self, *flows: Flow) -> None:
        """Hold the bytes of some flows or of both: a half-open connection."""
        self._change(flows, lambda control: control.is_open.clear())

    def resume(self) -> None:
        """Let held bytes go on."""
        self._change(BOTH, lambda control: control.is_open.set())

    def delay(self, seconds: float, *flows: Flow) -> None:
        """Hold every piece of data for a time."""
        self._change(flows, lambda control: setattr(control, "delay_seconds", seconds))

    def swallow(self, *flows: Flow) -> None:
        """Read and forget: with REPLIES, the server has done the work and nobody hears of it."""
        self._change(flows, lambda control: setattr(control, "is_swallowing", True))

    def cut_after(self, size_bytes: int, flow: Flow) -> None:
        """Pass that many bytes of a flow, then reset the connection that carried them."""
        self._change((flow,), lambda control: setattr(control, "cut_after_bytes", size_bytes))

    def passed_bytes(self, flow: Flow) -> int:
        """Return how many bytes went through."""
        return self._controls[flow].passed_bytes

    def swallowed_bytes(self, flow: Flow) -> int:
        """Return how many bytes were read and forgotten."""
        return self._controls[flow].swallowed_bytes

    def heal(self) -> None:
        """Take every fault back, listen again, and reset connections that miss bytes."""
        super().heal()
        self.do(self._forget_faults)

    def _forget_faults(self) -> None:
        if any(control.is_swallowing for control in self._controls.values()):
            self._reset_all()
        for control in self._controls.values():
            control.delay_seconds, control.is_swallowing, control.cut_after_bytes = 0.0, False, None
            control.is_open.set()

    def _change(self, flows: tuple[Flow, ...], change: Callable[[FlowControl], object]) -> None:
        def apply() -> None:
            for flow in flows or BOTH:
                change(self._controls[flow])

        self.do(apply)

    def _reset_all(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_total += 1
        link = Link()
        self._links.add(link)
        self._writers.add(writer)
        try:
            await self._forward(link, reader, writer)
        # An error of either side ends both, as a cable pulled out would.
        except* OSError:
            _reset(writer)
        finally:
            self._links.discard(link)
            self._writers.discard(writer)
            writer.close()

    async def _forward(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        requests, replies = self._controls[Flow.REQUESTS], self._controls[Flow.REPLIES]
        await requests.is_open.wait()
        host, _, port = self._target.rpartition(":")
        upstream_reader, upstream = await asyncio.open_connection(host, int(port))
        self._writers.add(upstream)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(link, reader, upstream, requests))
                pumps.create_task(_pump(link, upstream_reader, writer, replies))
        except* OSError:
            _reset(upstream)
            raise
        finally:
            self._writers.discard(upstream)
            upstream.close()


MakeProxy: TypeAlias = Callable[[str], TcpProxy]
"""Starts a proxy before a host and port."""


def server_context(certificates: Certificates) -> ssl.SSLContext:
    """Return what a server that speaks TLS needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.cert, certificates.key)
    return context


async def _pump(
    link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, control: FlowControl
) -> None:
    while data := await reader.read(CHUNK_BYTES):
        admitted = await control.admit(data)
        if link.is_forgotten:
            continue
        writer.write(admitted)
        await writer.drain()
        if control.cut_after_bytes == 0:
            raise ConnectionResetError("cut after the given number of bytes")
    if writer.can_write_eof() and not link.is_forgotten:
        writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    # One of TLS has none when it has ended.
    with suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    writer.transport.abort()
