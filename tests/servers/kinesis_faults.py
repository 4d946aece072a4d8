"""What may go wrong with a PutRecords call, as values."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import md5
from http import HTTPStatus

import msgspec

from tests.servers.faults import AbortAfter, AbortBefore, Delay, Pass

THROTTLED = "ProvisionedThroughputExceededException"
SHARD_RECORDS_PER_SECOND = 1_000
SHARD_BYTES_PER_SECOND = 1_048_576


class PutRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a PutRecords call, as the proxy saw it."""

    position: int
    partition_key: str
    shard_id: str
    data: str
    """Base64, as on the wire."""

    @property
    def size_bytes(self) -> int:
        """Return the size that Kinesis counts: data and key."""
        return len(self.data) * 3 // 4 + len(self.partition_key.encode())


class PutCall(msgspec.Struct, frozen=True, kw_only=True):
    """One PutRecords call, as the proxy saw it."""

    stream: str
    records: tuple[PutRecord, ...]
    refused: frozenset[int]
    """Positions of the records that the proxy refused."""


@dataclass(frozen=True)
class FailRecords:
    """Refuse the records that `is_refused` names; the others are stored."""

    is_refused: Callable[[PutRecord], bool]
    code: str = THROTTLED

    @classmethod
    def at(cls, *positions: int, code: str = THROTTLED) -> "FailRecords":
        """Refuse the records at these positions of the call."""
        return cls(lambda record: record.position in positions, code)

    @classmethod
    def share(cls, share: float, seed: int, code: str = THROTTLED) -> "FailRecords":
        """Refuse this share of the records, chosen by a seeded generator."""
        chance = random.Random(seed)
        return cls(lambda _: chance.random() < share, code)

    @classmethod
    def shard(cls, shard_id: str, code: str = THROTTLED) -> "FailRecords":
        """Refuse every record of one shard."""
        return cls(lambda record: record.shard_id == shard_id, code)


@dataclass(frozen=True)
class FailCall:
    """Refuse the whole call with an error of the service."""

    code: str
    status: int = HTTPStatus.BAD_REQUEST
    message: str = "refused by the fault proxy"


Fault = FailRecords | FailCall | AbortBefore | AbortAfter | Delay | Pass

THROTTLE_CALL = FailCall(THROTTLED)
INTERNAL_FAILURE = FailCall("InternalFailure", HTTPStatus.INTERNAL_SERVER_ERROR)
EXPIRED_TOKEN = FailCall("ExpiredTokenException")
ACCESS_DENIED = FailCall("AccessDeniedException")


@dataclass
class ShardLimit:
    """A token bucket per shard, with the limits of the real service unless told otherwise."""

    records_per_second: float = SHARD_RECORDS_PER_SECOND
    bytes_per_second: float = SHARD_BYTES_PER_SECOND
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def admits(self, record: PutRecord) -> bool:
        """Take the record's share of its shard's bucket; say no when too little is left."""
        now = self.clock()
        full = (self.records_per_second, self.bytes_per_second, now)
        records, size, since = self._left.get(record.shard_id, full)
        records = min(records + (now - since) * self.records_per_second, self.records_per_second)
        size = min(size + (now - since) * self.bytes_per_second, self.bytes_per_second)
        is_admitted = records >= 1 and size >= record.size_bytes
        if is_admitted:
            records, size = records - 1, size - record.size_bytes
        self._left[record.shard_id] = (records, size, now)
        return is_admitted


@dataclass(frozen=True)
class HashRange:
    """The hash keys of one shard."""

    shard_id: str
    first: int
    last: int


def hash_key(partition_key: str) -> int:
    """Return the hash key by which Kinesis chooses the shard."""
    return int.from_bytes(md5(partition_key.encode(), usedforsecurity=False).digest())
