"""The embedded bus: one log per stream in a directory; see `buses.files.log` for the bytes."""

import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

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

    def open(self) -> None:
        """Make the directory, and check that it can be written to."""
        self._close_writers()
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"{self._root} cannot be created: {error.strerror}.") from error
        if not os.access(self._root, os.W_OK):
            raise SinkError(f"{self._root} is not writable.")

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
        try:
            writer = self._writer(stream)
            writer.append(self._packer.pack(events))
            writer.sync()
            writer.roll_if_old()
        except SinkUnavailableError as error:
            return Result(Outcome.TRANSIENT, Reason.LOCKED, str(error))
        except OSError as error:
            # Opening the log again cuts whatever was left half written.
            return Result(Outcome.CLIENT_LOST, Reason.DISK, error.strerror or str(error))
        self._prune()
        return OK

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
