"""The embedded bus: one log per stream in a directory; see `buses.files.log` for the bytes."""

import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from tardis_machine.buses.files.ids import ensure_id
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.log_writer import LogWriter, remove_old_segments
from tardis_machine.sinks.records import RecordPacker
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

MAX_OPEN_STREAMS = 256
RETENTION_SECONDS = 1.0
"""How often old segments are looked for."""

FIRST_PAUSE_SECONDS = 0.25
MAX_PAUSE_SECONDS = 30.0
"""Longest pause between two attempts to write to a full disk."""


class DiskPauses:
    """Pauses between attempts on a full disk; a single event that fits does not end them."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._failed_bytes = 0

    def failed(self, size_bytes: int) -> float:
        """Return how long to wait after a failure, twice as long as after the one before."""
        self._seconds = min(MAX_PAUSE_SECONDS, max(FIRST_PAUSE_SECONDS, 2 * self._seconds))
        self._failed_bytes = size_bytes
        return self._seconds

    def wrote(self, size_bytes: int) -> None:
        """Start over once as much was written as failed before."""
        self._failed_bytes -= size_bytes
        if self._failed_bytes <= 0:
            self._seconds = 0.0


class FilesSink:
    """Appends events to logs; an event is acknowledged when it is flushed to disk."""

    keeps_order = True

    def __init__(self, settings: FilesSettings, delivery: EventBusSettings) -> None:
        assert settings.dir is not None
        self._settings = settings
        self._root = settings.dir
        self.max_batch_events = settings.max_batch_size
        self.max_batch_bytes = settings.max_batch_bytes
        # Events that arrive while a batch waits share its flush.
        self.max_batch_delay_seconds = max(settings.fsync_ms, settings.max_batch_delay_ms) / 1000
        self._packer = RecordPacker(Headers(settings.static_headers, settings.meta_headers_prefix))
        self._writers: OrderedDict[str, LogWriter] = OrderedDict()
        self._pruned_at = 0.0
        self._disk_pauses = DiskPauses()
        self._were_clean: list[bool] = []
        """For each failure since the last opening, whether it left the segment as it was."""

    def open(self) -> None:
        """Make the directory, and check that it can be written to."""
        # A full disk is no reason to begin new segments.
        if not self._were_clean or not all(self._were_clean):
            self._close_writers()
        self._were_clean.clear()
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"{self._root} cannot be created: {error.strerror}.") from error
        if not os.access(self._root, os.W_OK):
            raise SinkError(f"{self._root} is not writable.")
        try:
            ensure_id(self._root)
        except OSError as error:
            raise SinkUnavailableError(f"{self._root}: {error.strerror}.") from error

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        """Append events to their streams: one block and one flush per stream."""
        first = events[0].route.destination
        if all(event.route.destination == first for event in events):
            return [self._append(first, events)] * len(events)
        by_stream: dict[str, list[int]] = {}
        for index, event in enumerate(events):
            by_stream.setdefault(event.route.destination, []).append(index)
        results: list[Result] = [OK] * len(events)
        for stream, indexes in by_stream.items():
            outcome = self._append(stream, [events[index] for index in indexes])
            for index in indexes:
                results[index] = outcome
        return results

    def idle(self, seconds: float) -> None:
        """Close segments that have reached their age, and remove those beyond retention."""
        for writer in self._writers.values():
            with suppress(OSError):
                writer.roll_if_old()
        self._prune()

    def close(self, seconds: float) -> None:
        """Close every segment."""
        self._close_writers()

    def _append(self, stream: str, events: Sequence[Event]) -> Result:
        payload, is_clean = self._packer.pack(events), False
        try:
            writer = self._writer(stream)
            try:
                writer.append(payload)
            except OSError:
                is_clean = writer.is_whole
                raise
            writer.sync()
            writer.roll_if_old()
        except SinkUnavailableError as error:
            return Result(Outcome.TRANSIENT, Reason.LOCKED, str(error))
        except OSError as error:
            self._were_clean.append(is_clean)
            return self._failure(error, len(payload))
        self._disk_pauses.wrote(len(payload))
        self._prune()
        return OK

    def _failure(self, error: OSError, size_bytes: int) -> Result:
        """Ask to be opened again, which cuts whatever was left half written, after a while."""
        pause_seconds = self._disk_pauses.failed(size_bytes)
        detail = error.strerror or str(error)
        return Result(Outcome.CLIENT_LOST, Reason.DISK, detail, retry_after_seconds=pause_seconds)

    def _writer(self, stream: str) -> LogWriter:
        writer = self._writers.get(stream)
        if writer is not None:
            self._writers.move_to_end(stream)
            return writer
        if len(self._writers) >= MAX_OPEN_STREAMS:
            self._writers.popitem(last=False)[1].close()
        writer = self._writers[stream] = LogWriter(
            self._root / stream,
            segment_bytes=self._settings.segment_bytes,
            segment_age_seconds=self._settings.segment_age_ms / 1000,
            codec=self._settings.compression,
        )
        ensure_id(writer.directory)
        return writer

    def _prune(self) -> None:
        """Remove segments beyond retention, now and then."""
        settings, now = self._settings, time.monotonic()
        if not (settings.retention_bytes or settings.retention_age_ms):
            return
        if now - self._pruned_at < RETENTION_SECONDS:
            return
        self._pruned_at = now
        for stream in self._writers:
            removed = remove_old_segments(
                self._root / stream,
                keep_bytes=settings.retention_bytes,
                keep_seconds=settings.retention_age_ms / 1000,
            )
            if removed:
                log.info("segments deleted by retention", stream=stream, segments=len(removed))

    def _close_writers(self) -> None:
        while self._writers:
            _, writer = self._writers.popitem()
            with suppress(OSError):
                writer.close()
