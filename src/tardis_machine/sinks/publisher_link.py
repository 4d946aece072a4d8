"""A connection to the publisher process, and the streams that go over it.

Nothing here blocks the event loop. A frame that was not acknowledged is sent again when the
publisher was restarted; how many bytes are kept for it is bounded, then the overflow policy rules.
"""

import asyncio
import itertools
from pathlib import Path

import msgspec

from tardis_machine.bronze.series import Origin
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.channel import Channel, connect
from tardis_machine.sinks.frames import (
    Hello,
    Kind,
    Redrive,
    Status,
    StreamContext,
    tail_of,
    unpack_sequences,
)
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

FIRST_RECONNECT_SECONDS = 0.02
LONGEST_RECONNECT_SECONDS = 1.0


class _Sent:
    """A frame that was sent; once settled, only the tail that later ordinals depend on."""

    __slots__ = ("is_settled", "kind", "mark", "payload")

    def __init__(self, kind: Kind, payload: bytes, mark: int) -> None:
        self.kind = kind
        self.payload = payload
        self.mark = mark
        self.is_settled = False

    def settle(self) -> None:
        self.is_settled = True
        self.payload = tail_of(self.payload) if self.kind is Kind.LINES else b""


class PublishedStream:
    """The records of one request or job on their way to the publisher."""

    def __init__(self, link: "Link", number: int, context: StreamContext) -> None:
        self._link = link
        self._sent: dict[int, _Sent] = {}
        self._is_closed = False
        self.number = number
        self.context = context
        self.settled_mark = 0
        """The mark of the last frame before which, and with which, everything is settled."""

    @property
    def is_settled(self) -> bool:
        """Say whether nothing is waiting for the publisher."""
        return all(frame.is_settled for frame in self._sent.values())

    async def publish(self, lines: bytes, mark: int = 0) -> None:
        """Hand over NDJSON lines; waits only while the publisher cannot keep up.

        Args:
            lines: as they go to the client.
            mark: any rising number, to ask `settled_mark` about.
        """
        if lines:
            await self._link.send(self, Kind.LINES, lines, mark)

    async def redrive(self, redrive: Redrive) -> None:
        """Hand over events that were published or given up before."""
        await self._link.send(self, Kind.RECORDS, msgspec.msgpack.encode(redrive), 0)

    async def wait_until_settled(self) -> None:
        """Wait until the publisher has settled everything, however long that takes."""
        while not self.is_settled:
            await self._link.wait_for_settlement()

    def close(self) -> None:
        """Say that nothing more will come."""
        self._is_closed = True
        self._link.forget_if_done(self)

    def add(self, sequence: int, frame: _Sent) -> None:
        """Keep a frame until it is settled."""
        self._sent[sequence] = frame

    def settle(self, sequence: int) -> None:
        """Let go of a frame; the last settled one before an open one is needed for ordinals."""
        self._sent[sequence].settle()
        while self._sent:
            first, *others = itertools.islice(self._sent, 2)
            if not self._sent[first].is_settled:
                return
            self.settled_mark = max(self.settled_mark, self._sent[first].mark)
            if not others or not self._sent[others[0]].is_settled:
                return
            del self._sent[first]

    @property
    def is_done(self) -> bool:
        """Say whether it was closed and everything is settled."""
        return self._is_closed and self.is_settled

    def frames(self) -> list[tuple[int, _Sent]]:
        """Return what a new publisher must be told, in order."""
        return list(self._sent.items())


class Link:
    """One connection to the publisher, renewed when it breaks; one per origin."""

    def __init__(self, path: Path, origin: Origin, settings: EventBusSettings) -> None:
        self._path = path
        self._window_bytes = settings.queue_max_bytes
        self._drops_oldest = settings.overflow == "drop-oldest"
        is_live = origin is Origin.REALTIME
        wait_ms = settings.max_block_ms if is_live else settings.replay_max_block_ms
        self._budget_seconds = wait_ms / 1000
        self._streams: dict[int, PublishedStream] = {}
        self._owners: dict[int, tuple[PublishedStream, int]] = {}
        self._held_bytes = 0
        self._numbers = itertools.count(1)
        self._sequences = itertools.count(1)
        self._channel: Channel | None = None
        self._room = asyncio.Event()
        self._has_given_up = False
        self._is_leaving = False
        self._is_losing = False
        self._lost = 0
        self.status: Status | None = None
        """What the publisher said last; None while there is none."""

    @property
    def is_settled(self) -> bool:
        """Say whether nothing is waiting for the publisher."""
        return not self._owners and not self._lost

    async def wait_until_settled(self) -> None:
        """Wait until the publisher has settled everything."""
        while not self.is_settled:
            await self.wait_for_settlement()

    async def wait_for_settlement(self) -> None:
        """Wait until the publisher has settled something."""
        self._room.clear()
        await self._room.wait()

    def stream(self, context: StreamContext) -> PublishedStream:
        """Begin a stream."""
        number = next(self._numbers)
        stream = self._streams[number] = PublishedStream(self, number, context)
        self._write(Kind.OPEN, number, 0, msgspec.msgpack.encode(context))
        return stream

    async def send(self, stream: PublishedStream, kind: Kind, payload: bytes, mark: int) -> None:
        """Send a frame and keep it until it is settled; without room, wait or lose by policy."""
        if not self._has_room(len(payload)) and not await self._make_room(stream, len(payload)):
            self._lose(payload)
            return
        sequence = next(self._sequences)
        stream.add(sequence, _Sent(kind, payload, mark))
        self._owners[sequence] = stream, len(payload)
        self._held_bytes += len(payload)
        self._write(kind, stream.number, sequence, payload)

    def forget_if_done(self, stream: PublishedStream) -> None:
        """Drop what is known of a stream that has ended and is settled."""
        if stream.is_done and self._streams.pop(stream.number, None) is not None:
            self._write(Kind.CLOSE, stream.number, 0, b"")

    def leave(self) -> None:
        """Tell the publisher that nothing more will come."""
        self._is_leaving = True
        self._write(Kind.BYE, 0, 0, b"")

    async def run(self) -> None:
        """Stay connected, and take what the publisher says."""
        pause = FIRST_RECONNECT_SECONDS
        while True:
            try:
                channel = await connect(str(self._path))
            except OSError:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_RECONNECT_SECONDS)
                continue
            pause = FIRST_RECONNECT_SECONDS
            async with channel:
                await self._talk(channel)

    async def _talk(self, channel: Channel) -> None:
        """Use a connection until it fails."""
        try:
            self._resume(channel)
            await self._listen(channel)
        except OSError:
            log.warning("connection to the publisher process lost", held_bytes=self._held_bytes)
        finally:
            self._channel = self.status = None

    def _resume(self, channel: Channel) -> None:
        """Tell a new publisher everything that the last one did not settle."""
        self._channel = channel
        self._write(Kind.HELLO, 0, 0, msgspec.msgpack.encode(Hello(self._window_bytes)))
        for stream in self._streams.values():
            context = msgspec.msgpack.encode(stream.context)
            self._write(Kind.OPEN, stream.number, 0, context)
            for sequence, frame in stream.frames():
                kind = Kind.PRIME if frame.is_settled else frame.kind
                self._write(kind, stream.number, sequence, frame.payload)
        self._report_loss()
        if self._is_leaving:
            self._write(Kind.BYE, 0, 0, b"")

    async def _listen(self, channel: Channel) -> None:
        while True:
            frame = await channel.read()
            if frame.kind is Kind.ACK:
                self._settle(unpack_sequences(frame.payload))
            elif frame.kind is Kind.STATUS:
                self.status = msgspec.msgpack.decode(frame.payload, type=Status)

    def _settle(self, sequences: tuple[int, ...]) -> None:
        for sequence in sequences:
            owner = self._owners.pop(sequence, None)
            if owner is None:
                continue
            stream, size = owner
            self._held_bytes -= size
            stream.settle(sequence)
            self.forget_if_done(stream)
        self._has_given_up = self._is_losing = False
        self._room.set()

    def _write(self, kind: Kind, stream: int, sequence: int, payload: bytes) -> None:
        if self._channel is not None:
            self._channel.send(kind, stream, sequence, payload)

    def _has_room(self, size: int) -> bool:
        return not self._held_bytes or self._held_bytes + size <= self._window_bytes

    async def _make_room(self, stream: PublishedStream, size: int) -> bool:
        """Wait for acknowledgements; once a wait was in vain, nobody waits until one comes."""
        if self._drops_oldest and not stream.context.waits:
            while not self._has_room(size):
                self._drop_oldest()
            return True
        try:
            async with asyncio.timeout(None if stream.context.waits else self._budget_seconds):
                while not self._has_room(size):
                    if self._has_given_up and not stream.context.waits:
                        return False
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            self._has_given_up = True
            return False
        return True

    def _drop_oldest(self) -> None:
        sequence, (stream, _) = next(iter(self._owners.items()))
        self._lose(dict(stream.frames())[sequence].payload)
        self._settle((sequence,))

    def _lose(self, payload: bytes) -> None:
        """Count what was lost; the publisher adds it to its own counts."""
        if not self._is_losing:
            log.error(
                "events dropped: the publisher process does not keep up",
                held_bytes=self._held_bytes,
            )
        self._is_losing = True
        self._lost += payload.count(b"\n")
        self._report_loss()

    def _report_loss(self) -> None:
        if self._lost and self._channel is not None:
            self._write(Kind.LOST, 0, 0, str(self._lost).encode())
            self._lost = 0
