"""Recorded data of the tardis.dev archive, slice by slice, through the cache."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.model.requests import Filter, ReplayRange
from tardis_machine.sources.context import ArchiveContext, Timing
from tardis_machine.sources.data_api import DataApi, open_session
from tardis_machine.sources.limits import RequestLimiter
from tardis_machine.sources.prefetch import Prefetch
from tardis_machine.sources.replay import Replay, ReplayOptions
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.metrics import ArchiveMetrics, Metrics


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
    ) -> None:
        self.settings = settings
        self._context = ArchiveContext(settings, metrics or Metrics().archive, timing or Timing())
        self._limiter = limiter or RequestLimiter(settings.max_concurrent_requests)

    async def __aenter__(self) -> Self:
        self._session = open_session(self.settings)
        self._api = DataApi(self._context, self._session, self._limiter)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def lines(
        self,
        exchange: str,
        filters: Iterable[Filter],
        replay_range: ReplayRange,
        *,
        api_key: str | None = None,
        auto_cleanup: bool = False,
        wait_minutes: float | None = None,
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
        """
        options = ReplayOptions(
            exchange=exchange,
            filters=optimize_filters(filters),
            replay_range=replay_range,
            api_key=api_key or self.settings.api_key,
            auto_cleanup=auto_cleanup,
            wait_minutes=wait_minutes,
        )
        replay = Replay(self._context, self._api, options)
        try:
            async with Prefetch(replay.produce, self.settings.max_slices_ahead) as ahead:
                async for ready in ahead:
                    needs_local_filter = replay.needs_local_filter(ready)
                    async with aclosing(replay.pieces(ready)) as pieces:
                        async for piece in pieces:
                            yield SliceChunk(piece, needs_local_filter)
                            # Downloads and other readers get their turn after every chunk.
                            await asyncio.sleep(0)
                    replay.release(ready)
        finally:
            replay.close()
