"""What waits for clients of live streams: bounded over all of them, whatever each holds."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tardis_machine.model.control import Disconnect
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import (
    BookChange,
    BookLevel,
    EncodedBookChange,
    EncodedBookSnapshot,
)
from tardis_machine.session.live.backlog import Backlog, ClientQueue
from tardis_machine.session.live.chunks import CHUNK_BYTES, RECORD_BYTES, LiveChunk


def chunk(records: int = 1) -> LiveChunk:
    record = Disconnect(exchange="bitmex", local_timestamp="2024-03-01T00:00:00.000Z")
    return LiveChunk([record] * records)


class Client:
    """Puts chunks into a queue of its own."""

    def __init__(self, backlog: Backlog) -> None:
        self.is_over = False
        self.queue = ClientQueue(backlog, self.end)

    def end(self) -> None:
        self.is_over = True

    def put(self, *chunks: LiveChunk) -> None:
        for each in chunks:
            self.queue.put(each)


def test_client_that_holds_most_gives_way() -> None:
    backlog = Backlog(100 * RECORD_BYTES)
    small, large = Client(backlog), Client(backlog)
    small.put(*(chunk() for _ in range(40)))
    large.put(*(chunk() for _ in range(60)))
    assert not large.is_over
    large.put(*(chunk() for _ in range(10)))
    assert large.is_over
    assert not small.is_over
    assert small.queue.records == 40
    # What it held is free again.
    small.put(*(chunk() for _ in range(40)))
    assert not small.is_over


def test_chunk_that_many_wait_for_counts_once() -> None:
    backlog = Backlog(100 * RECORD_BYTES)
    clients = [Client(backlog) for _ in range(50)]
    for _ in range(90):
        shared = chunk()
        for client in clients:
            client.put(shared)
    assert not any(client.is_over for client in clients)
    for client in clients:
        client.queue.clear()
    clients[0].put(*(chunk() for _ in range(90)))
    assert not clients[0].is_over


def test_what_was_taken_is_not_counted() -> None:
    client = Client(Backlog(100 * RECORD_BYTES))
    for _ in range(10):
        client.put(*(chunk() for _ in range(50)))
        assert sum(len(each.records) for each in client.queue.take()) == 50
    assert not client.is_over


def test_little_is_taken_at_once() -> None:
    client = Client(Backlog(10 * CHUNK_BYTES))
    records = CHUNK_BYTES // RECORD_BYTES // 2
    client.put(*(chunk(records) for _ in range(10)))
    sizes = []
    while taken := client.queue.take():
        sizes.append(len(taken))
    assert sum(sizes) == 10
    assert max(sizes) <= 4
    assert client.queue.records == 0


@pytest.mark.parametrize("levels", [0, 1, 100])
def test_levels_count_whether_they_are_text_or_not(levels: int) -> None:
    shared: dict[str, Any] = {
        "symbol": "XBTUSD",
        "exchange": "bitmex",
        "timestamp": "2024-03-01T00:00:00.000Z",
        "local_timestamp": "2024-03-01T00:00:00.000000Z",
    }
    snapshot: dict[str, Any] = {"name": "book_snapshot_100_0ms", "depth": 100, "interval": 0}
    side = [BookLevel(price=60_000.5 + price, amount=0.25) for price in range(levels)]
    text = Raw(msgspec.json.encode(side))
    books = [
        BookChange(is_snapshot=False, bids=side, asks=side, **shared),
        EncodedBookChange(is_snapshot=False, bid_text=text, ask_text=text, **shared),
        EncodedBookSnapshot(bids=[text], asks=[text], **snapshot, **shared),
    ]
    for book in books:
        size_bytes = LiveChunk([book]).size_bytes
        lines_bytes = len(encode_lines([book]))
        assert lines_bytes < size_bytes < 6 * lines_bytes + 2 * RECORD_BYTES
