"""Equal entries of a request, read and mapped once."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Sequence
from contextlib import AsyncExitStack, aclosing

from tardis_machine.model.records import Record
from tardis_machine.session.plan import EntryPlan

Chunks = AsyncGenerator[list[Record], None]


class SharedChunks:
    """Reads a stream once for several readers, each of which gets every chunk.

    A merge reads equal streams in turns, so a chunk waits here until each had its turn.
    """

    def __init__(self, source: AsyncIterator[list[Record]], readers: int) -> None:
        self._source = source
        self._waiting: list[deque[list[Record]]] = [deque() for _ in range(readers)]

    async def read(self, reader: int) -> Chunks:
        """Yield the chunks of the stream to one of the readers."""
        waiting = self._waiting[reader]
        while True:
            if not waiting:
                chunk = await anext(self._source, None)
                if chunk is None:
                    return
                for each in self._waiting:
                    each.append(chunk)
            yield waiting.popleft()


async def open_entries(
    stack: AsyncExitStack, entries: Sequence[EntryPlan], read: Callable[[EntryPlan], Chunks]
) -> list[Chunks]:
    """Return a stream for each entry, in their order; the stack closes what they read from."""
    places: dict[Hashable, list[int]] = {}
    for place, entry in enumerate(entries):
        places.setdefault(entry.key, []).append(place)
    streams: dict[int, Chunks] = {}
    for equal in places.values():
        source = await stack.enter_async_context(aclosing(read(entries[equal[0]])))
        if len(equal) == 1:
            streams[equal[0]] = source
            continue
        shared = SharedChunks(source, len(equal))
        for reader, place in enumerate(equal):
            streams[place] = await stack.enter_async_context(aclosing(shared.read(reader)))
    return [streams[place] for place in range(len(entries))]
