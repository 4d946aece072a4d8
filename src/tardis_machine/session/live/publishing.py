"""Live feeds to the log of the publisher: every event once, whoever asked for it.

The records of a feed come from its tap, computed ones from the first view that makes them. Whoever
brought an exchange's records of one type and symbol first goes on with them until it ends, so
that nothing is published twice when two feeds or views overlap.
"""

import asyncio
from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import (
    BookSnapshot,
    EncodedBookSnapshot,
    Record,
    TimedRecord,
    TradeBar,
)
from tardis_machine.sinks.publisher.client import PublishedStream
from tardis_machine.sources.live.listeners import Failure, FeedKey, FeedListener, Loss

COLLECT_SECONDS = 0.001
"""Records of so long go to the log together."""

CONTROL = (Disconnect, FeedError)
COMPUTED = frozenset((BookSnapshot, EncodedBookSnapshot, TradeBar))
TYPES: dict[type[Record], str] = {
    kind: str(kind.__struct_config__.tag) for kind in TimedRecord.__subclasses__()
}
"""What is published. Records of one type may have several classes."""


class RecordSource:
    """Whoever brings records; what it brought first is its own until it ends."""

    def __init__(self) -> None:
        self.owned: set[Hashable] = set()


class FeedTap(RecordSource, FeedListener):
    """Publishes what one feed brings, its errors and disconnects included."""

    def __init__(self, publisher: "LivePublisher", exchange: str) -> None:
        super().__init__()
        self._publisher = publisher
        self._exchange = exchange

    def take_records(self, records: Sequence[Record]) -> None:
        """Publish records."""
        self._publisher.publish(self, self._exchange, records)

    def failed(self, failure: Failure) -> None:
        """Publish an error, with the count of the feed itself."""
        self._publisher.publish(self, self._exchange, [failure.record()])

    def lost(self, loss: Loss) -> None:
        """Publish a disconnect."""
        self._publisher.publish(self, self._exchange, [loss.record()])


class LivePublisher:
    """Writes the records of live feeds to the log, those of a moment together.

    Args:
        stream: to the publisher.
    """

    def __init__(self, stream: PublishedStream) -> None:
        self._stream = stream
        # An entry goes with whoever owns it: a feed or a view that has ended is nobody's any more.
        self._owners: WeakValueDictionary[Hashable, RecordSource] = WeakValueDictionary()
        self._pending: list[Record] = []
        self._flush: asyncio.TimerHandle | None = None
        self.records = 0
        self.latest_us: dict[str, int] = {}
        """By exchange: the local time of the latest record (µs)."""

    def tap(self, key: FeedKey) -> FeedTap:
        """Return what listens to a feed."""
        return FeedTap(self, key.exchange)

    def publish(self, source: RecordSource, exchange: str, records: Sequence[Record]) -> None:
        """Publish records that nobody else brings."""
        chosen = [record for record in records if self._is_owned(source, exchange, record)]
        if not chosen:
            return
        self._pending += chosen
        self.records += len(chosen)
        self.latest_us[exchange] = chosen[-1].local_time_us
        if self._flush is None:
            loop = asyncio.get_running_loop()
            self._flush = loop.call_later(COLLECT_SECONDS, self.flush)

    def flush(self) -> None:
        """Write what was collected."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._pending:
            pending, self._pending = self._pending, []
            self._stream.publish_now(encode_lines(pending))

    def close(self) -> None:
        """Write what is left, and end the stream."""
        self.flush()
        self._stream.close()

    def _is_owned(self, source: RecordSource, exchange: str, record: Any) -> bool:
        if isinstance(record, CONTROL):
            return True
        kind = type(record)
        if kind not in TYPES:
            return False
        key = exchange, record.name if kind in COMPUTED else TYPES[kind], record.symbol
        if key in source.owned:
            return True
        if self._owners.setdefault(key, source) is not source:
            return False
        source.owned.add(key)
        return True
