"""The Redis Streams sink.

A batch of one stream is one transaction: all of it is stored or nothing, and the next one of the
stream waits for it, so that what comes after a failure is never stored before it. Transactions of
several streams, and of several servers of a cluster, are under way together, and one deadline ends
them all.
"""

import time
from collections.abc import Iterable, Sequence

from redis.exceptions import RedisError

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.redis.client import Link
from tardis_machine.buses.redis.errors import ELSEWHERE, PAUSE_SECONDS, not_connected
from tardis_machine.buses.redis.server import (
    ServerFacts,
    exists,
    memory_share,
    newest_id,
    read_facts,
    warn_of_readers,
    widen_idempotence,
)
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.redis.topology import Topology
from tardis_machine.buses.results import DUPLICATE, HELD_BACK, OK, Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.sinks.base import Event, fitting
from tardis_machine.sinks.redis.in_flight import Exchange, StreamBatch
from tardis_machine.sinks.redis.records import EntryIds, EntryWriter
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_TOO_LARGE = Result(Outcome.BAD_RECORD, Reason.TOO_LARGE, "larger than redis-max-record-bytes")
_UNSENT = Result(Outcome.TRANSIENT, Reason.NOT_SENT, "no server for the hash slot")
_FULL = Result(
    Outcome.TRANSIENT,
    Reason.MEMORY_HIGH_WATER,
    "used memory is above redis-memory-high-water",
    PAUSE_SECONDS,
)
_OUTRUN = Result(Outcome.TRANSIENT, Reason.ENTRY_ID_BEHIND, "another producer writes to the stream")
_PASSED = (Outcome.OK, Outcome.BAD_RECORD)
"""Outcomes after which the next events of a stream may go."""
_CACHED_STREAMS = 131_072


class RedisSink:
    """Publishes events as entries of Redis streams."""

    keeps_order = False

    def __init__(self, settings: RedisSettings, delivery: EventBusSettings) -> None:
        self._settings = settings
        self._delivery = delivery
        self.max_batch_events = settings.max_batch_size * settings.max_in_flight
        self.max_batch_bytes = settings.max_batch_bytes * settings.max_in_flight
        self.max_batch_delay_seconds = settings.max_batch_delay_ms / 1000
        self._timeout_seconds = settings.request_timeout_ms / 1000
        self._topology = Topology(settings)
        self._ids = EntryIds(_now_ms) if settings.entry_id == "monotonic" else None
        self._is_idempotent = False
        self._writer = EntryWriter(settings, delivery, ids=self._ids)
        self._max_record_bytes = settings.max_record_bytes
        self._known_streams: set[str] = set()
        self._new_streams: set[str] = set()
        self._memory = _MemoryWatch(settings.memory_high_water)

    def open(self) -> None:
        """Connect, and learn what the server is and can do."""
        try:
            facts = read_facts(self._topology.open())
            if facts.is_cluster and self._settings.cluster == "auto":
                self._topology.join_cluster()
        except RedisError as error:
            is_hopeless = not_connected(error).outcome is Outcome.BAD_DESTINATION
            kind = SinkError if is_hopeless else SinkUnavailableError
            raise kind(f"Redis connection failed: {error}") from None
        self._adapt(facts)

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        """Add events to their streams, a batch of each stream at a time."""
        deadline = time.monotonic() + self._timeout_seconds
        results = [_UNSENT] * len(events)
        left = self._by_stream(events, results)
        while left:
            cuts = [stream.cut(self._fitting(stream.events)) for stream in left]
            self._exchange([batch for batch, _ in cuts], results, deadline)
            left = [rest for batch, rest in cuts if _is_next(rest, batch, results)]
        return results

    def idle(self, seconds: float) -> None:
        """Do nothing: a connection needs no care until it is used."""

    def close(self, seconds: float) -> None:
        """Close all connections."""
        self._topology.close()

    def _exchange(
        self, batches: Iterable[StreamBatch], results: list[Result], deadline: float
    ) -> None:
        """Send a batch to each of several streams and note what became of them."""
        exchanges = self._plan(batches, results)
        for exchange in exchanges:
            exchange.send(self._writer, deadline)
        for exchange in exchanges:
            for batch, found in exchange.receive(deadline):
                self._settle(batch, found, exchange.link)
                for position, result in zip(batch.positions, found, strict=True):
                    results[position] = result

    def _fitting(self, events: Sequence[Event]) -> int:
        """Return how many events make a batch."""
        settings = self._settings
        return fitting(events, 0, settings.max_batch_size, settings.max_batch_bytes)

    def _adapt(self, facts: ServerFacts) -> None:
        """Use what the server can do."""
        wanted = self._settings.idempotent
        if wanted == "on" and not facts.knows_idempotence:
            version = ".".join(map(str, facts.version)) or "unknown"
            raise SinkError(f"redis-idempotent=on requires Redis 8.6; the server has {version}.")
        self._is_idempotent = wanted != "off" and self._ids is None and facts.knows_idempotence
        self._writer = EntryWriter(
            self._settings, self._delivery, is_idempotent=self._is_idempotent, ids=self._ids
        )
        limit = self._settings.max_record_bytes
        self._max_record_bytes = min(limit, facts.max_bulk_bytes or limit)

    def _by_stream(self, events: Sequence[Event], results: list[Result]) -> list[StreamBatch]:
        """Sort events by stream; those that no server takes get their result at once."""
        streams = {event.route.destination for event in events}
        largest = max([len(event.data) for event in events])
        if len(streams) == 1 and largest <= self._max_record_bytes:
            return [StreamBatch(streams.pop(), events, range(len(events)))]
        places: dict[str, list[int]] = {}
        for position, event in enumerate(events):
            if len(event.data) > self._max_record_bytes:
                results[position] = _TOO_LARGE
            else:
                places.setdefault(event.route.destination, []).append(position)
        return [
            StreamBatch(stream, [events[place] for place in found], found)
            for stream, found in places.items()
        ]

    def _plan(self, batches: Iterable[StreamBatch], results: list[Result]) -> list[Exchange]:
        """Sort batches by server; those without one get their result at once."""
        exchanges: dict[int, Exchange] = {}
        for batch in batches:
            link, refusal = self._ready_link(batch.stream)
            if link is None or refusal is not None:
                for position in batch.positions:
                    results[position] = refusal or _UNSENT
                continue
            exchange = exchanges.setdefault(id(link), Exchange(link, self._settings))
            exchange.batches.append(batch)
        # Connecting may take long: servers that are connected go first.
        return sorted(exchanges.values(), key=lambda exchange: not exchange.link.is_connected)

    def _ready_link(self, stream: str) -> tuple[Link | None, Result | None]:
        """Return the link for a stream, or why there is none now."""
        try:
            link = self._topology.link(stream)
            if self._memory.is_full(link):
                return link, _FULL
            self._prepare(stream, link)
        except RedisError as error:
            self._topology.forget()
            return None, not_connected(error)
        except SinkUnavailableError as error:
            return None, Result(Outcome.TRANSIENT, Reason.UNREACHABLE, str(error))
        return link, None

    def _prepare(self, stream: str, link: Link) -> None:
        """Do what must be done before the first entry goes to a stream."""
        if self._ids is not None and stream not in self._ids:
            self._ids.start(stream, newest_id(link, stream))
        if stream in self._known_streams:
            return
        if self._settings.max_length or self._settings.max_age_ms:
            warn_of_readers(link, stream)
        if self._is_idempotent and not exists(link, stream):
            self._new_streams.add(stream)
        if len(self._known_streams) >= _CACHED_STREAMS:
            self._known_streams.clear()
        self._known_streams.add(stream)

    def _settle(self, batch: StreamBatch, found: list[Result], link: Link) -> None:
        """Draw conclusions from the results of one stream."""
        if self._ids is not None:
            self._settle_ids(batch, found, self._ids)
        is_all_stored = found.count(OK) == len(found)
        reasons = set() if is_all_stored else {result.reason for result in found}
        if reasons & ELSEWHERE:
            link.close()
            self._topology.forget()
        if Reason.MOVED in reasons and self._settings.cluster == "auto":
            self._topology.join_cluster()
        if batch.stream in self._new_streams and found[-1] is OK:
            self._new_streams.discard(batch.stream)
            widen_idempotence(link, batch.stream)

    def _settle_ids(self, batch: StreamBatch, found: list[Result], ids: EntryIds) -> None:
        for position, event in enumerate(batch.events):
            result = found[position]
            if result.reason is Reason.ENTRY_ID_NOT_NEWER:
                is_ours = ids.is_repeated(event)
                found[position] = DUPLICATE if is_ours else _OUTRUN
                if not is_ours:
                    ids.forget(batch.stream)
            if result.outcome is not Outcome.AMBIGUOUS:
                ids.release(event)


class _MemoryWatch:
    """Looks at the memory of servers, now and then.

    Args:
        high_water: share of the limit above which a server counts as full; 0: never.
    """

    def __init__(self, high_water: float) -> None:
        self._high_water = high_water
        self._next_look: dict[str, float] = {}
        self._full: set[str] = set()

    def is_full(self, link: Link) -> bool:
        """Say whether a server should be left alone."""
        if not self._high_water:
            return False
        now = time.monotonic()
        if now >= self._next_look.get(link.where, 0.0):
            self._next_look[link.where] = now + PAUSE_SECONDS
            is_full = memory_share(link) > self._high_water
            (self._full.add if is_full else self._full.discard)(link.where)
        return link.where in self._full


def _is_next(rest: StreamBatch, batch: StreamBatch, results: list[Result]) -> bool:
    """Say whether there is a rest to send after a batch; one behind a failure is held up."""
    if all(results[position].outcome in _PASSED for position in batch.positions):
        return bool(rest.events)
    for position in rest.positions:
        results[position] = HELD_BACK
    return False


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
