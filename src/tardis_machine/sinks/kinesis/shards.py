"""The shards of a stream, and how much of their limits is left."""

import hashlib
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

RECORDS_PER_SECOND = 1000.0
BYTES_PER_SECOND = 1_048_576.0


class Bucket:
    """Token bucket of one shard: its limits per second, refilled continuously."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._records = RECORDS_PER_SECOND * rate
        self._bytes = BYTES_PER_SECOND * rate
        self._since = clock()

    def take(self, size_bytes: int) -> bool:
        """Take the share of one record, if it is there."""
        self._refill()
        # A record larger than the whole bucket goes when the bucket is full.
        if self._records < 1 or self._bytes < min(size_bytes, BYTES_PER_SECOND * self._rate):
            return False
        self._records -= 1
        self._bytes -= size_bytes
        return True

    def empty(self) -> None:
        """Note that the service throttled the shard."""
        self._refill()
        self._records = min(self._records, 0.0)
        self._bytes = min(self._bytes, 0.0)

    def _refill(self) -> None:
        now = self._clock()
        passed, self._since = now - self._since, now
        records, size = RECORDS_PER_SECOND * self._rate, BYTES_PER_SECOND * self._rate
        self._records = min(records, self._records + passed * records)
        self._bytes = min(size, self._bytes + passed * size)


class Shards:
    """Finds the shard of a hash key among those that are open."""

    def __init__(self, described: Iterable[dict[str, Any]], rate: float) -> None:
        found = sorted(
            (int(shard["HashKeyRange"]["StartingHashKey"]), str(shard["ShardId"]))
            for shard in described
            if "EndingSequenceNumber" not in shard.get("SequenceNumberRange", {})
        )
        self._starts: Sequence[int] = [start for start, _ in found]
        self._buckets = [Bucket(rate) for _ in found]
        self.ids = frozenset(name for _, name in found)

    def bucket(self, hash_key: int) -> Bucket | None:
        """Return what is left of the shard that takes a hash key."""
        place = bisect_right(self._starts, hash_key) - 1
        return self._buckets[place] if place >= 0 else None


def hash_key_of(text: str) -> int:
    """Return the hash key by which Kinesis chooses the shard of a partition key."""
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest())
