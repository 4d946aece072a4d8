"""The tardis.dev data API: one slice per request, stored in the cache."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tardis_machine.exchanges.filters import filters_query
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import MINUTE_US, ms_text
from tardis_machine.sources.cache import SliceFile, SliceFolder
from tardis_machine.sources.context import ArchiveContext
from tardis_machine.sources.limits import RequestLimiter, Retries

if TYPE_CHECKING:
    from tardis_machine.sources.downloads import Downloads


@dataclass(frozen=True, kw_only=True)
class SliceRequest:
    """One slice of a replay, as the data API is asked for it."""

    exchange: str
    filters: tuple[Filter, ...]
    replay_start_us: int
    start_us: int
    minutes: int = 1
    api_key: str | None = None


@dataclass(frozen=True)
class StoredSlice:
    """A slice that arrived, and the size that the data API suggests for the next ones."""

    file: SliceFile
    suggested_minutes: int


class DataApi:
    """Fetches slices within the limits of the process."""

    def __init__(self, context: ArchiveContext, limiter: RequestLimiter) -> None:
        self._context = context
        self._settings = context.settings
        self._limiter = limiter
        self._retries = Retries(context)

    @cached_property
    def _downloads(self) -> "Downloads":
        # Replays of what is in the cache need no HTTP client, which takes 0.3 s to import.
        from tardis_machine.sources.downloads import Downloads

        return Downloads(self._context)

    def slice_url(self, request: SliceRequest) -> str:
        """Return the URL of a slice."""
        compression = "zstd-multiframe" if self._settings.compression == "zstd" else "gzip"
        query = filters_query(request.filters)
        parameters = [
            f"from={ms_text(request.replay_start_us // 1000)}",
            f"offset={(request.start_us - request.replay_start_us) // MINUTE_US}",
            f"compression={compression}",
            *([f"sliceSize={request.minutes}"] if request.minutes > 1 else ()),
            *([f"filters={query}"] if query else ()),
        ]
        endpoint = self._settings.endpoint.rstrip("/")
        return f"{endpoint}/data-feeds/{request.exchange}?{'&'.join(parameters)}"

    async def fetch(
        self,
        request: SliceRequest,
        folder: SliceFolder,
        gives_up: Callable[[], Awaitable[bool]] | None = None,
    ) -> StoredSlice:
        """Fetch a slice into a folder, with as many attempts as are granted."""
        with self._context.metrics.download.time():
            return await self._retries.run(
                lambda: self.download(request, folder),
                gives_up=gives_up,
                endpoint=self._settings.endpoint,
                exchange=request.exchange,
                minute=ms_text(request.start_us // 1000),
            )

    async def download(self, request: SliceRequest, folder: SliceFolder) -> StoredSlice:
        """Fetch a slice into a folder in one attempt, whole or not at all.

        Raises:
            TransientError: another attempt may succeed.
            SourceError: none will.
        """
        url = self.slice_url(request)
        async with self._limiter:
            return await self._downloads.store(url, request, folder)

    async def close(self) -> None:
        """Close the connections, if there are any."""
        if "_downloads" in self.__dict__:
            await self._downloads.close()
