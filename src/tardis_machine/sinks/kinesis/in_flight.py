"""Which records of a batch go into which call.

Records of one key follow one another: a key is in one call at a time, and when one of its records
fails, those behind it are not sent. Different keys go in different calls at the same time.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import HELD_BACK, Outcome, Result
from tardis_machine.sinks.kinesis.records import Record
from tardis_machine.sinks.kinesis.shards import Bucket, Shards

_GOES_ON = (Outcome.OK, Outcome.BAD_RECORD)


class Lane:
    """Records of one key, in their order.

    Args:
        stream: Where they go.
        records: In their order.
        shards: Of the stream; None: unknown, so there is no rate limit.
        leading: How many of the first records failed before and share no call with the others.
    """

    __slots__ = ("leading", "records", "shards", "stream")

    def __init__(
        self, stream: str, records: Iterable[Record], shards: Shards | None, leading: int = 0
    ) -> None:
        self.stream = stream
        self.records = deque(records)
        self.shards = shards
        self.leading = leading

    def bucket(self, record: Record) -> Bucket | None:
        """Return what is left of the shard that a record goes to."""
        return None if self.shards is None else self.shards.bucket(record.hash_key)

    def note(self, record: Record, result: Result) -> None:
        """Note that the service throttled the shard of a record."""
        bucket = self.bucket(record)
        if result.reason is Reason.THROTTLED and bucket is not None:
            bucket.empty()


@dataclass(slots=True)
class Call:
    """The records of one PutRecords call, each with the lane it comes from."""

    stream: str
    records: list[tuple[Lane, Record]] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def events(self) -> int:
        """Return how many events the records hold."""
        return sum(len(record.places) for _, record in self.records)


class Plan:
    """Cuts a batch into calls and collects their results.

    Args:
        events: How many events the batch has.
        lanes: Their records.
        per_lane: Records of one key in one call, at most.
        max_records: Records of one call, at most.
        max_bytes: Bytes of one call, at most.
    """

    def __init__(
        self,
        events: int,
        lanes: Iterable[Lane],
        *,
        per_lane: int,
        max_records: int,
        max_bytes: int,
    ) -> None:
        self._results: list[Result | None] = [None] * events
        self._ready = deque(lanes)
        self._per_lane = per_lane
        self._max_records = max_records
        self._max_bytes = max_bytes
        self.failed: set[int] = set()
        """Events that were in a call and failed, in this batch or before it."""

    @property
    def is_waiting(self) -> bool:
        """Say whether some key has records that no call holds."""
        return bool(self._ready)

    def settle(self, places: Iterable[int], result: Result) -> None:
        """Note what became of events."""
        for place in places:
            self._results[place] = result

    def next_call(self) -> Call | None:
        """Return the next call; None when no key is free or every shard is at its limit."""
        call: Call | None = None
        skipped: deque[Lane] = deque()
        while self._ready and (call is None or len(call.records) < self._max_records):
            lane = self._ready.popleft()
            call = call or Call(lane.stream)
            if lane.stream != call.stream or not self._load(lane, call):
                skipped.append(lane)
            if not call.records:
                call = None
        self._ready.extendleft(reversed(skipped))
        return call

    def _load(self, lane: Lane, call: Call) -> bool:
        """Move records of a lane into a call, as many as may go; say whether any did."""
        most = min(self._per_lane, lane.leading or self._per_lane)
        room, loaded = self._max_records - len(call.records), 0
        records, shards, size_bytes = lane.records, lane.shards, call.size_bytes
        while records and loaded < most and loaded < room:
            record = records[0]
            size = record.size_bytes
            if size_bytes + size > self._max_bytes and call.records:
                break
            bucket = None if shards is None else shards.bucket(record.hash_key)
            if bucket is not None and not bucket.take(size):
                break
            call.records.append((lane, records.popleft()))
            size_bytes += size
            loaded += 1
        call.size_bytes = size_bytes
        lane.leading = max(lane.leading - loaded, 0)
        return loaded > 0

    def finish(self, call: Call, results: Sequence[Result]) -> None:
        """Take the results of a call, one per record, and free its keys."""
        lanes: dict[int, Lane] = {}
        failed: set[int] = set()
        for (lane, record), result in zip(call.records, results, strict=True):
            self.settle(record.places, result)
            lanes[id(lane)] = lane
            if result.outcome not in _GOES_ON:
                failed.add(id(lane))
                self.failed.update(record.places)
        for name, lane in lanes.items():
            if name in failed:
                self._give_up(lane, HELD_BACK)
            elif lane.records:
                self._ready.append(lane)

    def stop(self, result: Result) -> None:
        """Give all that was not sent a result."""
        for lane in self._ready:
            self._give_up(lane, result)
        self._ready.clear()

    def results(self) -> list[Result]:
        """Return the results of all events."""
        return [result or HELD_BACK for result in self._results]

    def _give_up(self, lane: Lane, result: Result) -> None:
        """Give all records of a lane that were not sent a result."""
        for number, record in enumerate(lane.records):
            self.settle(record.places, result)
            if number < lane.leading:
                self.failed.update(record.places)
        lane.records.clear()
