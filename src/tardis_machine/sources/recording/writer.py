"""The thread that writes recordings, behind a bounded queue."""

import queue
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tardis_machine.model.time import MINUTE_US, ms_text
from tardis_machine.sources.cache import SliceFolder
from tardis_machine.sources.recording.directory import RecordingDirectory
from tardis_machine.sources.recording.minute_file import MinuteFile
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

SUFFIX = ".zst"


class Block(NamedTuple):
    """Lines of one minute of an exchange."""

    exchange: str
    minute_us: int
    data: bytes
    messages: int


class End(NamedTuple):
    """Nothing more comes of an exchange for now."""

    exchange: str


Dropped: TypeAlias = Callable[[str, str, int], None]
"""Told, by the writing thread, from which exchange, why and how many messages are not recorded."""


class OpenMinute:
    """A minute that is being written, or that failed and waits for its end."""

    def __init__(self, minute_us: int, file: MinuteFile | None) -> None:
        self.minute_us = minute_us
        self.file = file
        self.messages = 0


class RecordingWriter:
    """Writes blocks in their order.

    Args:
        directory: where to.
        max_bytes: most that waits; what comes then is refused.
        on_dropped: told what is not recorded although it was taken.
    """

    def __init__(self, directory: RecordingDirectory, max_bytes: int, on_dropped: Dropped) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._on_dropped = on_dropped
        self._queue: queue.SimpleQueue[Block | End | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        self._open: dict[str, OpenMinute] = {}
        self._interrupted: set[str] = set()
        """Exchanges whose last minute failed: the next one must not continue it."""
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def put(self, block: Block) -> bool:
        """Take a block; say whether there is room for it."""
        with self._lock:
            if self._waiting_bytes + len(block.data) > self._max_bytes:
                return False
            self._waiting_bytes += len(block.data)
        self._queue.put(block)
        return True

    def end(self, exchange: str) -> None:
        """Complete the open minute of an exchange."""
        self._queue.put(End(exchange))

    def close(self) -> None:
        """Write what waits, and complete every open minute."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            if isinstance(entry, End):
                self._complete(entry.exchange)
                continue
            self._write(entry)
            with self._lock:
                self._waiting_bytes -= len(entry.data)
        for exchange in [*self._open]:
            self._complete(exchange)

    def _write(self, block: Block) -> None:
        minute = self._open.get(block.exchange)
        if minute is None or minute.minute_us != block.minute_us:
            self._complete(block.exchange)
            minute = self._begin(block)
        if minute.file is None:
            self._on_dropped(block.exchange, "disk", block.messages)
            return
        minute.messages += block.messages
        try:
            minute.file.write(block.data)
        except OSError as error:
            self._give_up(block.exchange, minute, error)

    def _begin(self, block: Block) -> OpenMinute:
        folder = SliceFolder(self._directory.path, block.exchange, ())
        base = folder.base_path(block.minute_us)
        path = self._directory.open_path(block.exchange, block.minute_us)
        minute = self._open[block.exchange] = OpenMinute(block.minute_us, None)
        try:
            minute.file = MinuteFile(path, base.with_name(base.name + SUFFIX))
            if block.exchange in self._interrupted:
                minute.file.write(b"\n")
                self._interrupted.remove(block.exchange)
        except OSError as error:
            self._give_up(block.exchange, minute, error)
        return minute

    def _complete(self, exchange: str) -> None:
        minute = self._open.pop(exchange, None)
        if minute is None or minute.file is None:
            return
        try:
            minute.file.confirm()
        except OSError as error:
            self._give_up(exchange, minute, error)

    def _give_up(self, exchange: str, minute: OpenMinute, error: OSError) -> None:
        """Lose a minute that cannot be written; the next one is tried again."""
        if minute.file is not None:
            minute.file.discard()
            minute.file = None
        self._interrupted.add(exchange)
        self._on_dropped(exchange, "disk", minute.messages)
        log.error(
            "minute not recorded; the next one is tried again",
            exchange=exchange,
            minute=ms_text(minute.minute_us // 1000)[:16],
            directory=str(self._directory.path),
            reason=error.strerror or str(error),
        )


def minute_of(us: int) -> int:
    """Return when the minute of a time begins."""
    return us - us % MINUTE_US
