"""Recorded slices as files, found in the cache or fetched into it."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tardis_machine.model.time import MINUTE_US
from tardis_machine.sources.cache import MAX_SLICE_MINUTES, SliceFile, SliceFolder
from tardis_machine.sources.data_api import DataApi, SliceRequest
from tardis_machine.sources.fetch_plan import Span
from tardis_machine.sources.slices import lines_between, read_slice


@dataclass(frozen=True, slots=True)
class ReadySpan:
    """Whole minutes and the files that hold them, in order."""

    span: Span
    files: tuple[SliceFile, ...]
    suggested_minutes: int = 1

    @property
    def is_whole_feed(self) -> bool:
        """Say whether the files hold all channels of the exchange."""
        return self.files[0].is_whole_feed

    def pieces(self) -> Iterator[bytes]:
        """Yield the lines of the span and of nothing else."""
        for file in self.files:
            start_us = max(file.start_us, self.span.start_us)
            end_us = min(file.end_us, self.span.end_us)
            pieces = read_slice(file.path)
            if (start_us, end_us) != (file.start_us, file.end_us):
                pieces = lines_between(pieces, start_us, end_us)
            yield from pieces


class RecordedSlices:
    """The slices of one exchange and one set of filters, for one replay."""

    def __init__(self, api: DataApi, cache_dir: Path, request: SliceRequest) -> None:
        self.folder = SliceFolder(cache_dir, request.exchange, request.filters)
        self._api = api
        self._request = request
        # Without filters, the data API cuts by the minute only.
        self._max_minutes = MAX_SLICE_MINUTES if request.filters else 1

    async def obtain(
        self,
        span: Span,
        *,
        is_fresh: bool = False,
        gives_up: Callable[[], Awaitable[bool]] | None = None,
    ) -> ReadySpan:
        """Return a span with its files, fetching what the cache lacks, or all if `is_fresh`."""
        files: list[SliceFile] = []
        suggested_minutes, start_us = 1, span.start_us
        while start_us < span.end_us:
            minutes = min((span.end_us - start_us) // MINUTE_US, self._max_minutes)
            file = None if is_fresh else self.folder.find_exact(start_us, minutes)
            if file is None:
                request = replace(self._request, start_us=start_us, minutes=minutes)
                stored = await self._api.fetch(request, self.folder, gives_up)
                file, suggested_minutes = stored.file, stored.suggested_minutes
            files.append(file)
            start_us = file.end_us
        return ReadySpan(span, tuple(files), min(suggested_minutes, self._max_minutes))
