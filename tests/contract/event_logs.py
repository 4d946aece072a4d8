"""A log as a worker writes it, with given events, for tests of whatever reads logs."""

import time
from collections.abc import Sequence
from pathlib import Path

from tardis_machine.bronze.series import Origin
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.bus import Bus
from tardis_machine.sinks.delivery.context import StreamContext, pack_context
from tardis_machine.sinks.delivery.encoding import LogEncoding
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.records import RecordPacker
from tardis_machine.sinks.storage.chunks import Flags
from tardis_machine.sinks.storage.directory import LogReader, create_log
from tardis_machine.sinks.storage.positions import PositionFile
from tardis_machine.sinks.storage.writer import ChunkWriter

CHUNK_EVENTS = 100
LOOK_AGAIN_SECONDS = 0.002


def now_us() -> int:
    return time.time_ns() // 1000


class EventLog:
    """Events in a log, for one reader or several."""

    def __init__(self, root: Path, *readers: LogReader) -> None:
        self.directory, self._lock = create_log(root, "tester", "test", now_us(), readers)
        written = PositionFile(self.directory.written_path, is_writable=True)
        self._writer = ChunkWriter(self.directory.path, now_us, "off", written=written)
        self._packer = RecordPacker(Headers({}))
        self._context = pack_context(
            StreamContext(stream="s", producer_id="tester", origin=Origin.REPLAY, meta={})
        )

    @property
    def events(self) -> int:
        return self._writer.events

    def read_by(self, bus: Bus) -> None:
        """Let a bus read the log, as the publisher of its server does."""
        assert bus.read(self.directory, LogEncoding(self.directory, bus.cases, 1), is_own=True)

    def append(self, events: Sequence[Event]) -> None:
        for start in range(0, len(events), CHUNK_EVENTS):
            chunk = events[start : start + CHUNK_EVENTS]
            self._writer.append(self._context, self._packer.pack(chunk), len(chunk), Flags.RECORDS)

    def close(self) -> None:
        self._writer.close()
        self._lock.release()


class Delivery:
    """Events on their way: waits until they, and all before them, are settled."""

    def __init__(self, bus: Bus, events: int) -> None:
        self._bus = bus
        self._events = events

    def is_set(self) -> bool:
        totals = self._bus.status().totals
        settled = totals.published + totals.filtered + totals.dead + totals.dropped
        return settled + totals.quarantined >= self._events

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self.is_set():
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_AGAIN_SECONDS)
        return True
