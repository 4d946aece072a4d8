"""Records for Python callers: one by one on the outside, chunk by chunk inside."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import aclosing
from types import TracebackType
from typing import Self

from tardis_machine.computed.combine import Merger, local_keys
from tardis_machine.computed.pipeline import Computables
from tardis_machine.model.data_types import ComputedSpec
from tardis_machine.model.records import Record, decoded


class RecordStream:
    """An async iterator of records; `chunks` gives the same records as lists.

    It releases files and connections when it is exhausted or closed. Use `async with` (or
    `aclose`) when you may stop early.
    """

    def __init__(self, chunks: AsyncGenerator[list[Record], None]) -> None:
        self._chunks = chunks
        self._ready: list[Record] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        while not self._ready:
            chunk = await anext(self._chunks)
            chunk.reverse()
            self._ready = chunk
        return decoded(self._ready.pop())

    async def chunks(self) -> AsyncIterator[list[Record]]:
        """Yield lists of records, about as many as 64 KiB of raw data hold."""
        async for chunk in self._chunks:
            if chunk:
                yield [decoded(record) for record in chunk]

    async def aclose(self) -> None:
        """Stop, and release what the stream reads from."""
        await self._chunks.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


async def computed_chunks(
    source: AsyncIterable[Record], specs: Sequence[ComputedSpec]
) -> AsyncGenerator[list[Record], None]:
    """Yield each record of a stream, followed by what it triggers."""
    computables = Computables(specs)
    async with aclosing(_chunks_of(source)) as chunks:
        async for chunk in chunks:
            yield computables.apply(chunk)


async def combined_chunks(
    sources: Sequence[AsyncIterable[Record]],
) -> AsyncGenerator[list[Record], None]:
    """Merge streams by local time; equal times keep the order of the streams."""
    streams = [_chunks_of(source) for source in sources]
    try:
        async for chunk in merged_chunks(streams):
            yield chunk
    finally:
        for stream in streams:
            await stream.aclose()


async def merged_chunks(
    streams: Sequence[AsyncIterator[list[Record]]],
    pause: Callable[[], Awaitable[None]] | None = None,
) -> AsyncGenerator[list[Record], None]:
    """Merge streams of chunks by local time; all are primed before the first output.

    `pause` lets others run while many streams are read.
    """
    merger: Merger[Record, str] = Merger(len(streams))
    while not merger.is_done:
        while (index := merger.needs()) is not None:
            chunk = await anext(streams[index], None)
            if chunk is None:
                merger.finish(index)
            else:
                merger.offer(index, chunk, local_keys(chunk))
            if pause is not None:
                await pause()
        released = merger.take()
        if released:
            yield released


async def _chunks_of(source: AsyncIterable[Record]) -> AsyncGenerator[list[Record], None]:
    """Read any stream of records as chunks; one of ours gives its own, others one by one."""
    if isinstance(source, RecordStream):
        async with source:
            async for chunk in source.chunks():
                yield chunk
        return
    async for record in source:
        yield [record]
