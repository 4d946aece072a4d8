"""The socket of the publisher process: frames of servers in, acknowledgements out."""

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec

from tardis_machine.buses.reasons import Reason
from tardis_machine.sinks.channel import Channel
from tardis_machine.sinks.frames import (
    Frame,
    Hello,
    Kind,
    Redrive,
    StreamContext,
    pack_sequences,
)
from tardis_machine.sinks.publisher import Publisher, Stream
from tardis_machine.sinks.tickets import Ticket
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

STATUS_SECONDS = 0.5
FIRST_CONNECTION_SECONDS = 1.5
PRESSED_SHARE = 0.5
"""Part of a server's window beyond which we are said to keep it waiting."""


class Connection:
    """One server, or one worker of it."""

    def __init__(self, publisher: Publisher, channel: Channel) -> None:
        self._publisher = publisher
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, Stream] = {}
        self._settled: deque[tuple[int, int]] = deque()
        self._is_flushing = False
        self._held_bytes = 0
        self._window_bytes = 0
        self._is_closed = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self.left = asyncio.Event()
        """Nothing more will come."""
        self.gone = asyncio.Event()
        """The connection has ended."""

    async def serve(self) -> None:
        """Take frames until the server goes; after `stop_reading`, only wait for that."""
        self._reading = asyncio.create_task(self._read(), name="publisher connection")
        closing = asyncio.create_task(self._is_closed.wait())
        try:
            await asyncio.wait({self._reading, closing}, return_when="FIRST_COMPLETED")
            self.left.set()
            if not self._is_closed.is_set():
                waiting = asyncio.create_task(self._channel.wait_until_closed())
                await asyncio.wait({waiting, closing}, return_when="FIRST_COMPLETED")
                waiting.cancel()
            await self._channel.wait_until_sent()
        finally:
            self._reading.cancel()
            closing.cancel()
            self.gone.set()

    def stop_reading(self) -> None:
        """Take no more frames; what was not taken stays unacknowledged."""
        if self._reading is not None:
            self._reading.cancel()

    def close(self) -> None:
        """End the connection when what was written to it is sent."""
        self._is_closed.set()

    async def _read(self) -> None:
        try:
            while True:
                await self._take(await self._channel.read())
        except OSError:
            return
        except Exception:
            # The server sends again what was not settled; one bad frame must not stop others.
            log.exception("connection of a worker failed")

    def send_status(self, payload: bytes) -> None:
        """Send the status of publishing to the server."""
        self._send(Kind.STATUS, payload)

    def flush(self) -> None:
        """Send the acknowledgements that are due."""
        self._is_flushing = False
        sequences = []
        while self._settled:
            sequence, size = self._settled.popleft()
            self._held_bytes -= size
            sequences.append(sequence)
        if sequences:
            self._send(Kind.ACK, pack_sequences(sequences))

    async def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.LINES or frame.kind is Kind.RECORDS:
            await self._publish(frame)
        elif frame.kind is Kind.PRIME:
            self._streams[frame.stream].prime(frame.payload)
        elif frame.kind is Kind.OPEN:
            context = msgspec.msgpack.decode(frame.payload, type=StreamContext)
            self._streams[frame.stream] = self._publisher.stream(context)
        elif frame.kind is Kind.CLOSE:
            self._streams.pop(frame.stream, None)
        elif frame.kind is Kind.HELLO:
            hello = msgspec.msgpack.decode(frame.payload, type=Hello)
            self._window_bytes = hello.window_bytes
        elif frame.kind is Kind.LOST:
            self._publisher.lose(Reason.PUBLISHER_UNAVAILABLE, int(frame.payload))
        elif frame.kind is Kind.BYE:
            self.left.set()

    async def _publish(self, frame: Frame) -> None:
        stream, size = self._streams[frame.stream], len(frame.payload)
        self._held_bytes += size
        self._publisher.press(is_pressed=self._held_bytes > self._window_bytes * PRESSED_SHARE)
        ticket = Ticket(partial(self._settle, frame.sequence, size))
        if frame.kind is Kind.LINES:
            await stream.publish(frame.payload, ticket)
        else:
            redrive = msgspec.msgpack.decode(frame.payload, type=Redrive)
            await self._publisher.redrive(redrive, stream.context, ticket)
        ticket.complete()
        # Reading does not wait while there is something to read; the others want their turn.
        await asyncio.sleep(0)

    def _settle(self, sequence: int, size: int) -> None:
        """Note a settled frame, from any thread; one wake-up serves a burst of them."""
        self._settled.append((sequence, size))
        if not self._is_flushing:
            self._is_flushing = True
            # The loop has ended only after every thread that settles.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.flush)

    def _send(self, kind: Kind, payload: bytes) -> None:
        self._channel.send(kind, 0, 0, payload)


class PublisherServer:
    """Serves every connection to one publisher."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_served = asyncio.Event()

    @asynccontextmanager
    async def listen(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve while the body runs."""
        listener.setblocking(False)
        running = [
            asyncio.create_task(self._accept(listener), name="accept"),
            asyncio.create_task(self._report(), name="status"),
        ]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
            self.send_status()
            for connection in self._connections:
                connection.close()
            await asyncio.gather(*running, *self._tasks, return_exceptions=True)

    async def wait_until_left(self) -> None:
        """Wait until every server has said that nothing more will come."""
        # One that is just connecting to a restarted publisher may have frames to send again.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_served.wait(), FIRST_CONNECTION_SECONDS)
        while staying := [each for each in self._connections if not each.left.is_set()]:
            await staying[0].left.wait()

    def stop_reading(self) -> None:
        """Take no more frames."""
        for connection in self._connections:
            connection.stop_reading()

    async def wait_until_gone(self) -> None:
        """Wait until every server has closed its connection."""
        while self._connections:
            await next(iter(self._connections)).gone.wait()

    def send_status(self) -> None:
        """Send the status of publishing and the acknowledgements to every server."""
        payload = msgspec.msgpack.encode(self._publisher.status())
        for connection in self._connections:
            connection.flush()
            connection.send_status(payload)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listener)
            task = asyncio.create_task(self._serve(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, peer: socket.socket) -> None:
        async with Channel(peer) as channel:
            connection = Connection(self._publisher, channel)
            self._connections.add(connection)
            self._has_served.set()
            try:
                await connection.serve()
            finally:
                self._connections.discard(connection)

    async def _report(self) -> None:
        while True:
            self.send_status()
            await asyncio.sleep(STATUS_SECONDS)
