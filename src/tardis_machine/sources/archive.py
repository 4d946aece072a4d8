"""Recorded data of the tardis.dev archive, slice by slice, through the cache."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.model.requests import Filter, ReplayRange
from tardis_machine.sources.cache import own_cache
from tardis_machine.sources.context import ArchiveContext, Timing
from tardis_machine.sources.data_api import DataApi
from tardis_machine.sources.fetch_plan import whole_minutes
from tardis_machine.sources.limits import RequestLimiter
from tardis_machine.sources.prefetch import Prefetch
from tardis_machine.sources.recorded_slices import OwnSlices, SpanReader, WaitingReaders
from tardis_machine.sources.replay import Replay, ReplayOptions
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.sources.slices import PIECE_BYTES, SMALL_PIECE_BYTES
from tardis_machine.sources.turns import Turns
from tardis_machine.telemetry.metrics import Metrics
from tardis_machine.telemetry.replay_metrics import ArchiveMetrics

ALL_PIECES_BYTES = 8 * PIECE_BYTES
"""Pieces of all streams together, more or less: few streams are read in large ones, which is
fastest, many in small ones."""


@dataclass(frozen=True, slots=True)
class SliceChunk:
    """Whole lines of a slice, in the order they were recorded."""

    data: bytes
    needs_local_filter: bool
    """The slice holds the whole feed, so the reader drops what was not asked for."""


class ArchiveSource:
    """The archive as one process uses it: one HTTP session and one request limit for all replays.

    Use it as an async context manager.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        *,
        metrics: ArchiveMetrics | None = None,
        limiter: RequestLimiter | None = None,
        timing: Timing | None = None,
        recordings: Path | None = None,
    ) -> None:
        """Open nothing yet; `recordings` is a directory of own recordings, which come first."""
        self.settings = settings
        self._recordings = recordings
        self._context = ArchiveContext(settings, metrics or Metrics().archive, timing or Timing())
        self.turns = Turns()
        """Streams of this process wait here before they work on their next chunk."""
        self._open_streams = 0
        self._waiting = WaitingReaders()
        self._limiter = limiter or RequestLimiter(settings.max_concurrent_requests)

    async def __aenter__(self) -> Self:
        own_cache(self.settings.cache_dir)
        self._api = DataApi(self._context, self._limiter)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._api.close()

    async def lines(
        self,
        exchange: str,
        filters: Iterable[Filter],
        replay_range: ReplayRange,
        *,
        api_key: str | None = None,
        auto_cleanup: bool = False,
        wait_minutes: float | None = None,
        whole_range: ReplayRange | None = None,
    ) -> AsyncGenerator[SliceChunk, None]:
        """Yield the recorded lines of the whole minutes that a range touches, in time order.

        Slices are fetched ahead of the reader. Closing the iterator cancels that at once, so a
        reader that may stop early wraps it in `contextlib.aclosing`.

        Args:
            exchange: exchange id.
            filters: channels and symbols; none means the whole feed.
            replay_range: the range of recording time.
            api_key: used in place of the key of the settings.
            auto_cleanup: delete each slice when it was read.
            wait_minutes: wait for data that is not recorded yet, which it is this many minutes
                after its time; None asks the data API for all of it at once.
            whole_range: what this is a part of, if it is one. Own recordings are read if they
                have its first and its last minute.
        """
        options = ReplayOptions(
            exchange=exchange,
            filters=optimize_filters(filters),
            replay_range=replay_range,
            api_key=api_key or self.settings.api_key,
            auto_cleanup=auto_cleanup,
            wait_minutes=wait_minutes,
            whole_range=whole_range,
        )
        replay = Replay(self._context, self._api, options, self._recordings)
        self._open_streams += 1
        is_new = True
        try:
            async with Prefetch(replay.produce, self.settings.max_slices_ahead) as ahead:
                async for ready in ahead:
                    needs_local_filter = replay.needs_local_filter(ready)
                    reader = SpanReader(ready, self._piece_bytes, replay.repaired, self.turns)
                    await self.turns.wait(is_new=is_new)
                    is_new = False
                    with closing(reader):
                        while await reader.advance():
                            with self._waiting.waiting(reader):
                                # No name for it here: who waits for a slow client holds it.
                                yield SliceChunk(reader.take(), needs_local_filter)
                                await self.turns.wait()
                    replay.release(ready)
        finally:
            self._open_streams -= 1
            replay.close()

    def recorder_of(self, exchange: str, replay_range: ReplayRange) -> str:
        """Return the id of the recorder whose recording a range is read from; empty for none."""
        if self._recordings is None:
            return ""
        own, span = OwnSlices(self._recordings, exchange), whole_minutes(replay_range)
        if span.start_us >= span.end_us or not own.covers(span):
            return ""
        return own.recorder(span.start_us)

    @property
    def _piece_bytes(self) -> int:
        share = ALL_PIECES_BYTES // self._open_streams
        return min(PIECE_BYTES, max(SMALL_PIECE_BYTES, share))
