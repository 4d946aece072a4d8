"""One replay of the archive: what is fetched when, and what is read back."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from tardis_machine.model.errors import OfflineError, RequestError, SliceError
from tardis_machine.model.requests import Filter, ReplayRange
from tardis_machine.model.time import DAY_US, MINUTE_US, ms_text
from tardis_machine.sources.cache import SliceFile
from tardis_machine.sources.context import ArchiveContext
from tardis_machine.sources.data_api import DataApi, SliceRequest
from tardis_machine.sources.fetch_plan import Span, plan_spans, seconds_until, whole_minutes
from tardis_machine.sources.limits import TransientError
from tardis_machine.sources.prefetch import Prefetch
from tardis_machine.sources.recorded_slices import OwnSlices, ReadySpan, RecordedSlices
from tardis_machine.telemetry.loggers import get_logger

# A minute is asked for a moment after it counts as recorded.
_MARGIN_SECONDS = 0.1

MAX_AHEAD_US = DAY_US
"""How far ahead a replay may begin that waits for its data."""

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What one replay asks of the archive."""

    exchange: str
    filters: tuple[Filter, ...]
    replay_range: ReplayRange
    api_key: str | None = None
    auto_cleanup: bool = False
    wait_minutes: float | None = None
    whole_range: ReplayRange | None = None
    """What this is a part of, if it is one: all parts come from the same place."""


class Replay:
    """Plans, fetches and reads the slices of one range.

    The last minute is asked of the data API first, then the first one, so that a key without
    access fails before any data flows. What lies between comes from the cache where it can.
    """

    def __init__(
        self,
        context: ArchiveContext,
        api: DataApi,
        options: ReplayOptions,
        recordings: Path | None = None,
    ) -> None:
        self._settings = settings = context.settings
        self._timing = context.timing
        self._metrics = context.metrics
        self._options = options
        self._span = whole_minutes(options.replay_range)
        self._whole_span = whole_minutes(options.whole_range or options.replay_range)
        request = SliceRequest(
            exchange=options.exchange,
            filters=options.filters,
            replay_start_us=self._span.start_us,
            start_us=self._span.start_us,
            api_key=options.api_key,
        )
        self._slices = RecordedSlices(api, settings.cache_dir, request)
        self._all_channels = RecordedSlices(api, settings.cache_dir, replace(request, filters=()))
        self._own = None if recordings is None else OwnSlices(recordings, options.exchange)
        # One replay never queues more than it may run, so that another one finds its turn.
        self._running = asyncio.Semaphore(settings.max_concurrent_requests)
        self._trusts_cache = settings.trust_cache
        self._unread: set[Path] = set()

    async def produce(self, ahead: Prefetch[ReadySpan]) -> None:
        """Fetch the range in order, waiting for data not yet recorded if asked to."""
        delay_minutes = self._options.wait_minutes
        if self._span.start_us >= self._span.end_us:
            return
        if self._own is not None and self._own.covers(self._whole_span):
            await self._produce_own(ahead, self._own)
            return
        # Without a network nothing arrives that one could wait for.
        if delay_minutes is None or self._settings.offline:
            await self._produce_recorded(ahead, self._span)
            return
        self._check_start()
        await self._wait_for(self._span.start_us, delay_minutes)
        limit_us = self._timing.clock() - int(delay_minutes * MINUTE_US)
        recorded = max(1, (limit_us - self._span.start_us) // MINUTE_US)
        end_us = min(self._span.start_us + recorded * MINUTE_US, self._span.end_us)
        await self._produce_recorded(ahead, Span(self._span.start_us, end_us))
        for minute_us in range(end_us, self._span.end_us, MINUTE_US):
            await self._wait_for(minute_us, delay_minutes)
            await self._produce_planned(ahead, Span(minute_us, minute_us + MINUTE_US), 1)

    def needs_local_filter(self, ready: ReadySpan) -> bool:
        """Say whether a span holds more than the replay asked for."""
        return ready.is_whole_feed and bool(self._options.filters)

    async def repaired(self, ready: ReadySpan, error: SliceError) -> ReadySpan:
        """Fetch a slice again that cannot be read; raise the error where that cannot be done."""
        if self._settings.offline or ready.is_own:
            raise error
        self._metrics.corrupt_slices.inc()
        log.warning("cached slice unreadable; downloading it again", reason=str(error))
        return await self._obtain_again(ready)

    def release(self, ready: ReadySpan) -> None:
        """Delete what was read, if the replay asked for that and it can be fetched again."""
        is_shared = ready.is_own or self.needs_local_filter(ready)
        if self._options.auto_cleanup and not is_shared and not self._settings.offline:
            for file in ready.files:
                self._remove(file.path)

    def close(self) -> None:
        """Delete what was fetched and never read, if the replay asked for that."""
        for path in tuple(self._unread):
            self._remove(path)

    async def _produce_own(self, ahead: Prefetch[ReadySpan], own: OwnSlices) -> None:
        """Read what this machine recorded; it is never completed by what others recorded."""
        holes = 0
        for minute in own.minutes(self._span):
            holes += not minute.files
            await ahead.put(minute)
        if holes:
            log.warning(
                "recording has holes, which are replayed as disconnects",
                exchange=self._options.exchange,
                minutes=holes,
                directory=str(own.folder.path),
            )

    async def _produce_recorded(self, ahead: Prefetch[ReadySpan], span: Span) -> None:
        if self._settings.offline:
            missing_us = await self._first_missing(span)
            if missing_us is not None:
                raise self._missing_error(missing_us)
            await self._produce_planned(ahead, span, 1)
            return
        last = await self._obtain_edge(span.end_us - MINUTE_US, span)
        if span.minutes > 1:
            first = await self._obtain_edge(span.start_us, span)
            await ahead.put(first)
            middle = Span(span.start_us + MINUTE_US, span.end_us - MINUTE_US)
            max_minutes = max(first.suggested_minutes, last.suggested_minutes)
            await self._produce_planned(ahead, middle, max_minutes)
        await ahead.put(last)

    async def _produce_planned(
        self, ahead: Prefetch[ReadySpan], span: Span, max_minutes: int
    ) -> None:
        for part in plan_spans(span, max_minutes, self._find):
            if part.file:
                await ahead.put(self._cached(part, part.file))
            elif self._settings.offline:
                raise self._missing_error(part.start_us)
            else:
                await ahead.start(self._obtain(part))

    async def _obtain(self, span: Span) -> ReadySpan:
        async with self._running:
            return self._fetched(await self._slices.obtain(span))

    async def _obtain_edge(self, minute_us: int, span: Span) -> ReadySpan:
        """Fetch the first or last minute, cached or not, to learn whether access is granted.

        When the data API does not answer and the cache has the whole range, the cache will do.
        """
        edge = Span(minute_us, minute_us + MINUTE_US)
        cached = self._find(minute_us) if self._trusts_cache else None
        if cached:
            return self._cached(edge, cached)

        async def is_cached() -> bool:
            return await self._first_missing(span) is None

        try:
            return self._fetched(await self._slices.obtain(edge, is_fresh=True, gives_up=is_cached))
        except TransientError as error:
            log.warning("data API unavailable; reading the range from the cache", reason=str(error))
            self._trusts_cache = True
            return await self._obtain_edge(minute_us, span)

    async def _obtain_again(self, ready: ReadySpan) -> ReadySpan:
        slices = self._all_channels if ready.is_whole_feed else self._slices
        again = self._fetched(await slices.obtain(ready.span, is_fresh=True))
        for stale in {file.path for file in ready.files} - {file.path for file in again.files}:
            slices.folder.remove(stale)
        return again

    def _cached(self, span: Span, file: SliceFile) -> ReadySpan:
        self._metrics.slices.labels("cache").inc()
        return ReadySpan(span, (file,))

    def _fetched(self, ready: ReadySpan) -> ReadySpan:
        self._metrics.slices.labels("network").inc(len(ready.files))
        if self._options.auto_cleanup:
            self._unread.update(file.path for file in ready.files)
        return ready

    def _remove(self, path: Path) -> None:
        self._unread.discard(path)
        self._slices.folder.remove(path)

    def _find(self, minute_us: int) -> SliceFile | None:
        return self._slices.folder.find(minute_us) or self._all_channels.folder.find(minute_us)

    async def _first_missing(self, span: Span) -> int | None:
        """Return the first minute the cache lacks; looked up aside, a month has many folders."""

        def look() -> int | None:
            parts = plan_spans(span, 1, self._find)
            return next((part.start_us for part in parts if part.file is None), None)

        return await asyncio.to_thread(look)

    def _missing_error(self, minute_us: int) -> OfflineError:
        return OfflineError(
            f"Offline, and the cache lacks {self._options.exchange} at "
            f"{ms_text(minute_us // 1000)} for these filters. Looked in {self._slices.folder.path} "
            f"and, for the whole feed, in {self._all_channels.folder.path}.{self._own_hint()}"
        )

    def _own_hint(self) -> str:
        if self._own is None:
            return ""
        return f" The recording in {self._own.folder.path} lacks the first or the last minute."

    def _check_start(self) -> None:
        if self._span.start_us - self._timing.clock() > MAX_AHEAD_US:
            raise RequestError(
                f'Invalid "from" argument: {ms_text(self._span.start_us // 1000)} is more than a '
                "day ahead. Please ask again when it is closer."
            )

    async def _wait_for(self, minute_us: int, delay_minutes: float) -> None:
        seconds = seconds_until(minute_us, delay_minutes, self._timing.clock())
        if seconds > 0:
            await self._timing.sleep(seconds + _MARGIN_SECONDS)
