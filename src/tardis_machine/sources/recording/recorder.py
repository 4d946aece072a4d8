"""Records what live feeds bring, each message once, without slowing them."""

import asyncio

from tardis_machine.model.time import DAY_US, MINUTE_US, SECOND_US, Clock
from tardis_machine.sources.live.listeners import FeedKey
from tardis_machine.sources.live.source import LiveSource
from tardis_machine.sources.recording.directory import RecordingDirectory
from tardis_machine.sources.recording.exchange_lines import RECORDED, ExchangeLines
from tardis_machine.sources.recording.settings import RecordSettings
from tardis_machine.sources.recording.tap import RecorderTap
from tardis_machine.sources.recording.writer import RecordingWriter, minute_of
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.live_metrics import LiveMetrics
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

FLUSH_SECONDS = 0.2


class Recorder:
    """Writes the messages of all feeds of a process, and takes fresh books every day.

    Args:
        settings: where to, and how much may wait.
        metrics: where to count.
        clock: tells the time.
    """

    def __init__(
        self, settings: RecordSettings, metrics: LiveMetrics, clock: Clock = system_clock
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._directory: RecordingDirectory | None = None
        self._writer: RecordingWriter | None = None
        self._lines: dict[str, ExchangeLines] = {}
        self._taps: dict[str, list[RecorderTap]] = {}
        self._refresh_us: dict[str, int] = {}
        self.source: LiveSource | None = None

    def open(self) -> None:
        """Lock the directory; doing it twice does no harm.

        Raises:
            SettingsError: it cannot be written, or another process records to it.
        """
        if self._directory is not None:
            return
        assert self._settings.record is not None
        self._directory = RecordingDirectory(self._settings.record)
        loop = asyncio.get_running_loop()
        limit = self._settings.record_queue_max_bytes

        def count(exchange: str, outcome: str, messages: int) -> None:
            loop.call_soon_threadsafe(self._count, exchange, outcome, messages)

        self._writer = RecordingWriter(self._directory, limit, count)

    def tap(self, key: FeedKey) -> RecorderTap:
        """Return what listens to a feed."""
        self.open()
        siblings = self._taps.setdefault(key.exchange, [])
        tap = RecorderTap(self, key, self._lines_of(key.exchange), siblings)
        siblings.append(tap)
        return tap

    def leave(self, tap: RecorderTap) -> None:
        """Listen to a feed no longer; without any the minute of an exchange is complete."""
        siblings = self._taps[tap.key.exchange]
        siblings.remove(tap)
        if not siblings:
            del self._taps[tap.key.exchange]
            self._lines[tap.key.exchange].end()

    def refresh(self, exchange: str) -> None:
        """Ask for the books of an exchange again, soon: those of the recording have an end."""
        self._refresh_us.setdefault(exchange, self._clock() + SECOND_US)

    async def run(self, source: LiveSource) -> None:
        """Hand on what comes, again and again, until cancelled."""
        self.source = source
        day = self._clock() // DAY_US
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            for exchange in self._taps:
                self._lines[exchange].flush()
            if (today := self._clock() // DAY_US) != day:
                day = today
                source.refresh_books()
            self._refresh_due(source)

    async def close(self) -> None:
        """Complete every minute, and unlock the directory."""
        for lines in self._lines.values():
            lines.end()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        if self._directory is not None:
            self._directory.close()

    def _refresh_due(self, source: LiveSource) -> None:
        now_us = self._clock()
        for exchange, due_us in [*self._refresh_us.items()]:
            if now_us >= due_us:
                del self._refresh_us[exchange]
                source.refresh_books(exchange)

    def _lines_of(self, exchange: str) -> ExchangeLines:
        lines = self._lines.get(exchange)
        if lines is None:
            assert self._writer is not None
            name = self._settings.recorder_id
            lines = ExchangeLines(exchange, name, self._writer, self._clock, self._count)
            self._lines[exchange] = lines
        return lines

    def _count(self, exchange: str, outcome: str, messages: int) -> None:
        self._metrics.recorded.labels(exchange, outcome).inc(messages)
        if outcome == RECORDED:
            return
        if exchange not in self._refresh_us:
            log.error("messages not recorded", exchange=exchange, reason=outcome)
        # The next minute is written anew, and needs books of its own.
        self._refresh_us[exchange] = minute_of(self._clock()) + MINUTE_US + SECOND_US
