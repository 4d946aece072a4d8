"""The server's side of one AMQP connection: proton's engine between a socket and its events."""

import asyncio
import socket
import struct
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress

from proton import SASL, Collector, Connection, Delivery, Event, Link, Transport, TransportException

from tests.servers.amqp import FramePadder

TICK_SECONDS = 1.0
LINGER_RESET = struct.pack("ii", 1, 0)


class AmqpConnection(asyncio.Protocol):
    """Answer connections and sessions; leave links and deliveries to the subclass."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._padder = FramePadder()
        self._held = bytearray()
        self._is_holding = False
        self._engine = Transport(Transport.SERVER)
        self._connection, self._collector = Connection(), Collector()
        self._connection.collect(self._collector)
        sasl = self._engine.sasl()
        sasl.allowed_mechs("ANONYMOUS")
        sasl.done(SASL.OK)
        self._engine.bind(self._connection)
        self._actions: dict[object, Callable[[Event], None]] = {
            Event.CONNECTION_REMOTE_OPEN: lambda event: event.connection.open(),
            Event.CONNECTION_REMOTE_CLOSE: lambda event: event.connection.close(),
            Event.SESSION_REMOTE_OPEN: lambda event: event.session.open(),
            Event.SESSION_REMOTE_CLOSE: lambda event: event.session.close(),
            Event.LINK_REMOTE_OPEN: lambda event: self.attached(event.link),
            Event.LINK_REMOTE_CLOSE: lambda event: self.detached(event.link),
            Event.LINK_REMOTE_DETACH: lambda event: self.detached(event.link),
            Event.LINK_FLOW: lambda event: self.credited(event.link),
            Event.DELIVERY: lambda event: self.delivered(event.delivery),
        }

    @abstractmethod
    def attached(self, link: Link) -> None:
        """Answer a link that the client opened."""

    @abstractmethod
    def detached(self, link: Link) -> None:
        """Answer a link that the client closed."""

    @abstractmethod
    def credited(self, link: Link) -> None:
        """Use credit that the client granted."""

    @abstractmethod
    def delivered(self, delivery: Delivery) -> None:
        """Take a message, or the outcome of one of ours."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client, which speaks first."""
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        self._ticker = self.loop.call_later(TICK_SECONDS, self._tick)

    def connection_lost(self, _: Exception | None) -> None:
        """Stop the clock."""
        self._ticker.cancel()

    def data_received(self, data: bytes) -> None:
        """Give the engine what came."""
        if self._is_holding:
            self._held += data
            return
        while data and (capacity := self._engine.capacity()) > 0:
            self._engine.push(data[:capacity])
            data = data[capacity:]
            self._dispatch()
        self.write()

    def eof_received(self) -> None:
        """Tell the engine that the client has gone."""
        # In the middle of a frame the engine complains; the connection ends all the same.
        with suppress(TransportException):
            self._engine.close_tail()

    def hold(self) -> None:
        """Keep what comes and send nothing."""
        self._is_holding = True

    def release(self) -> None:
        """Go on with what came meanwhile."""
        self._is_holding = False
        held, self._held = bytes(self._held), bytearray()
        self.data_received(held)

    def abort(self, *, is_reset: bool = True) -> None:
        """Break the connection without a word of AMQP."""
        if is_reset:
            connection = self._socket.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
            self._socket.abort()
        else:
            self._socket.close()

    def write(self) -> None:
        """Send what the engine has to say."""
        if self._is_holding or self._socket.is_closing():
            return
        while (pending := self._engine.pending()) > 0:
            data = self._engine.peek(pending)
            self._engine.pop(len(data))
            self._socket.write(self._padder.feed(data))
        if self._engine.pending() < 0:
            self._socket.close()

    def _dispatch(self) -> None:
        while (event := self._collector.peek()) is not None:
            if action := self._actions.get(event.type):
                action(event)
            self._collector.pop()

    def _tick(self) -> None:
        # The engine sends an empty frame when the client's idle time is nearly over.
        self._ticker = self.loop.call_later(TICK_SECONDS, self._tick)
        if not self._is_holding:
            self._engine.tick(self.loop.time())
            self.write()
