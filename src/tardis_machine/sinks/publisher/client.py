"""The writing side of publishing: what clients get goes to a log, from which it is published."""

import asyncio
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from tardis_machine.bronze.content import NO_CONTENTS, Content
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError
from tardis_machine.model.time import Clock
from tardis_machine.sinks.delivery.context import StreamContext, pack_context
from tardis_machine.sinks.publisher.address import Doorbell, PublisherAddress
from tardis_machine.sinks.publisher.room import OnWaited, Room, ignore
from tardis_machine.sinks.publisher.supervision import read_supervision
from tardis_machine.sinks.reporting.status import CONNECTING, Status, outdated, with_problem
from tardis_machine.sinks.storage.chunks import Flags
from tardis_machine.sinks.storage.directory import FileLock, LogDirectory, LogReader, create_log
from tardis_machine.sinks.storage.positions import PositionFile
from tardis_machine.sinks.storage.writer import ChunkWriter, Syncer
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

LOOK_AGAIN_SECONDS = 0.05
STALE_SECONDS = 5.0
"""A status that is older was written by a publisher that has ended, or hangs."""
_status_decoder = msgspec.msgpack.Decoder(Status)


class PublishedStream:
    """The records of one request or job on their way into the log."""

    def __init__(self, client: "PublisherClient", context: StreamContext, *, waits: bool) -> None:
        self._client = client
        self._context = pack_context(context)
        self._waits = waits
        self._marks: list[tuple[int, int]] = []
        """Offsets behind what was written, and the marks given with it, not flushed yet."""
        self.saved_mark = 0
        """The mark of the last lines that are flushed to disk."""

    async def publish(self, lines: bytes, mark: int = 0, events: int | None = None) -> None:
        """Write NDJSON lines to the log; waits only while a bus is at its bound.

        Args:
            lines: as they go to the client.
            mark: any rising number, to ask `saved_mark` about.
            events: how many lines there are, from whoever knows; None: they are counted.
        """
        if lines:
            count = lines.count(b"\n") if events is None else events
            await self._write(lines, count, Flags.NONE, mark)

    def publish_now(self, lines: bytes) -> None:
        """Write NDJSON lines of a live feed, which waits for nobody."""
        self._client.append_now(self._context, lines, lines.count(b"\n"))

    async def publish_records(self, records: bytes, events: int) -> None:
        """Write packed records, published or given up before."""
        await self._write(records, events, Flags.RECORDS, 0)

    async def save(self) -> None:
        """Flush what was written to disk; afterwards `saved_mark` says how far that is."""
        marks, self._marks = self._marks, []
        if marks:
            await asyncio.to_thread(self._client.sync)
            self.saved_mark = max(self.saved_mark, marks[-1][1])

    def close(self) -> None:
        """Say that nothing more will come."""
        self._client.end_stream(self._context)

    async def _write(self, body: bytes, events: int, flags: Flags, mark: int) -> None:
        end = await self._client.append(self._context, body, events, flags, waits=self._waits)
        if end is not None and mark:
            self._marks.append((end, mark))


class PublisherClient:
    """Writes streams to a log of its own, for the publisher process to read.

    Args:
        address: of the publisher.
        settings: flushing and waiting.
        producer_id: who publishes.
        worker: number of the worker process that this one is.
        readers: the buses that are on, and their bounds in bytes.
        required: those of the buses without which the server is not well.
        clock: what time it is.
        on_waited: called with a bus at its bound and for how long a stream waited for it.

    Raises:
        SinkError: the log cannot be written.
    """

    def __init__(
        self,
        address: PublisherAddress,
        settings: EventBusSettings,
        producer_id: str,
        readers: Mapping[LogReader, int],
        *,
        worker: str | None = None,
        required: Collection[str] = (),
        clock: Clock = system_clock,
        on_waited: OnWaited = ignore,
    ) -> None:
        self._address = address
        self._producer_id = producer_id if worker is None else f"{producer_id}-w{worker}"
        self._required = frozenset(required)
        self._unknown = Status({reader.bus: CONNECTING for reader in readers}, b"")
        self._known: tuple[float, Status] = (0.0, self._unknown)
        self._log, self._lock, written = _open_log(address, producer_id, list(readers), clock)
        self._writer = ChunkWriter(self._log.path, clock, settings.fsync, written=written)
        self._syncs_each = settings.fsync == "each"
        self._bell = Doorbell(address.doorbell)
        self._room = Room(self._log, readers, settings, on_waited)
        self._syncer = Syncer(
            *(self._writer.sync, settings.fsync_ms / 1000, self._report_sync),
            due=self._writer.flush_due,
        )
        if settings.fsync == "interval":
            self._syncer.start()
        self._bell.ring()

    @property
    def status(self) -> Status:
        """Return what the publisher said last; buses it says nothing about are connecting."""
        read_at, status = self._known
        if time.monotonic() - read_at > 0.2:
            status = with_problem(self._read_status(), self._problem())
            self._known = time.monotonic(), status
        return status

    @property
    def has_failed(self) -> bool:
        """Say whether a required bus is long out of reach, or its publisher down or unstable."""
        if not self._required:
            return False
        if self._problem() is not None:
            return True
        buses = self.status.buses
        return any(buses[name].is_out_of_reach for name in self._required & buses.keys())

    def stream(
        self,
        origin: Origin,
        meta: Mapping[str, str],
        *,
        contents: Mapping[str, Content] = NO_CONTENTS,
        waits: bool = False,
        bus: str = "",
    ) -> PublishedStream:
        """Begin a stream.

        Args:
            origin: how the records came here.
            meta: ingest metadata of the stream.
            contents: how the records are made, by exchange.
            waits: never lose anything, however long that takes.
            bus: the only one that is to take it.
        """
        context = StreamContext(
            stream=uuid.uuid4().hex,
            producer_id=self._producer_id,
            origin=origin,
            meta=dict(meta),
            contents=dict(contents),
            bus=bus,
        )
        return PublishedStream(self, context, waits=waits)

    async def append(
        self,
        context: bytes,
        body: bytes,
        events: int,
        flags: Flags,
        *,
        waits: bool,
    ) -> int | None:
        """Write one chunk and return the offset behind it; None when it had to be given up."""
        if not self._room.has_room(self._writer.end):
            await self._room.wait(waits=waits)
        while True:
            try:
                end = self._writer.append(context, body, events, flags)
            except OSError as error:
                if not await self._room.wait_for_disk(error, waits=waits):
                    self._writer.give_up(events)
                    return None
                continue
            self._room.disk_is_well()
            self._bell.ring()
            return end

    def append_now(self, context: bytes, body: bytes, events: int) -> None:
        """Write one chunk without waiting; what cannot be written is counted as lost."""
        try:
            self._writer.append(context, body, events)
        except OSError as error:
            self._room.report_disk(error)
            self._writer.give_up(events)
            return
        self._room.disk_is_well()
        self._bell.ring()

    def end_stream(self, context: bytes) -> None:
        """Note that a stream has ended; where that cannot be written, it costs memory only."""
        with suppress(OSError):
            self._writer.append(context, b"", 0, Flags.LAST)

    def sync(self) -> None:
        """Flush what was written to disk."""
        self._writer.sync()

    async def wait_until_settled(self) -> None:
        """Wait until every bus has settled everything that was written here."""
        await self._room.wait_until_settled()

    async def wait_until_delivered(self) -> None:
        """Wait until every bus has settled everything, however long it takes.

        That is what was written here, and what ended writers left for the same publisher.
        """
        await self._room.wait_until_settled()
        asked_at = time.time()
        while not self._is_all_settled(asked_at):  # noqa: ASYNC110 - another process settles
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def _is_all_settled(self, since: float) -> bool:
        """Say whether the publisher said since a moment that no event waits."""
        status = self._read_status()
        return status.written_at > since and not any(bus.queued for bus in status.buses.values())

    def close(self) -> None:
        """End the log; the publisher delivers what is left."""
        self._syncer.stop()
        try:
            self._writer.close()
        except OSError as error:
            self._report_sync(error)
        self._room.close()
        self._lock.release()
        self._bell.ring()
        self._bell.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read_status(self) -> Status:
        with suppress(msgspec.DecodeError):
            status = _status_decoder.decode(self._address.status.read() or b"")
            age_seconds = time.time() - status.written_at
            return status if age_seconds < STALE_SECONDS else outdated(status, age_seconds)
        return self._unknown

    def _problem(self) -> str | None:
        return read_supervision(self._address.supervision).problem(time.time())

    @staticmethod
    def _report_sync(error: OSError) -> None:
        log.error("log of published records could not be flushed to disk", error=error.strerror)


def _open_log(
    address: PublisherAddress, producer_id: str, readers: Sequence[LogReader], clock: Clock
) -> tuple[LogDirectory, FileLock, PositionFile]:
    """Make a log and become its writer."""
    try:
        made, lock = create_log(address.root, producer_id, address.instance, clock(), readers)
        for reader in readers:
            # The disk may be full before its bus comes to read, which then needs no room.
            PositionFile(made.position_path(reader), is_writable=True).close()
        return made, lock, PositionFile(made.written_path, is_writable=True)
    except OSError as error:
        raise SinkError(
            f"The log of published records cannot be written to {address.root}: "
            f"{error.strerror or error}. Set event-bus-spool-dir to a writable directory."
        ) from error
