"""What waits for clients of live streams, bounded over all clients of a process."""

from collections import deque
from collections.abc import Callable

from tardis_machine.session.live.chunks import CHUNK_BYTES, LiveChunk

FEW_RECORDS = 16


class Backlog:
    """The memory of all queues; when it is too much, the client that holds most gives way."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._held_bytes = 0
        self._queues: dict[ClientQueue, None] = {}

    def hold(self, queue: "ClientQueue", chunk: LiveChunk) -> None:
        """Count a chunk, once however many clients wait for it."""
        self._queues[queue] = None
        chunk.holders += 1
        if chunk.holders == 1:
            self._held_bytes += chunk.size_bytes
        while self._held_bytes > self.max_bytes and self._queues:
            max(self._queues, key=lambda each: each.size_bytes).overflow()

    def release(self, chunk: LiveChunk) -> None:
        """Count a chunk no more that a client took."""
        chunk.holders -= 1
        if chunk.holders == 0:
            self._held_bytes -= chunk.size_bytes

    def forget(self, queue: "ClientQueue") -> None:
        """Take note that a queue is empty."""
        self._queues.pop(queue, None)


class ClientQueue:
    """Chunks that wait for one client.

    The first one is not counted if it is small: a client that reads seldom has another, and
    counting takes time.
    """

    def __init__(self, backlog: Backlog, on_overflow: Callable[[], None]) -> None:
        self.records = 0
        self.size_bytes = 0
        self._backlog = backlog
        self._on_overflow = on_overflow
        self._chunks: deque[tuple[LiveChunk, int]] = deque()

    def put(self, chunk: LiveChunk) -> None:
        """Add a chunk."""
        is_counted = self._chunks or len(chunk.records) > FEW_RECORDS
        size_bytes = chunk.size_bytes if is_counted else 0
        self._chunks.append((chunk, size_bytes))
        self.records += len(chunk.records)
        self.size_bytes += size_bytes
        if size_bytes:
            self._backlog.hold(self, chunk)

    def take(self) -> list[LiveChunk]:
        """Return the chunks that wait longest; few, because what is taken is not counted."""
        taken: list[LiveChunk] = []
        left_bytes = self.size_bytes - CHUNK_BYTES
        while self._chunks and (self.size_bytes >= left_bytes or not taken):
            taken.append(self._pop())
        return taken

    def clear(self) -> None:
        """Drop everything."""
        while self._chunks:
            self._pop()

    def overflow(self) -> None:
        """Drop everything, because all clients together hold too much."""
        self.clear()
        self._on_overflow()

    def _pop(self) -> LiveChunk:
        chunk, size_bytes = self._chunks.popleft()
        self.records -= len(chunk.records)
        self.size_bytes -= size_bytes
        if size_bytes:
            self._backlog.release(chunk)
        if not self._chunks:
            self._backlog.forget(self)
        return chunk
