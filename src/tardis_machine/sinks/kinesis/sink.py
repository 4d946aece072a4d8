"""The Kinesis sink, on aiobotocore: PutRecords, with ordering per key by this sink.

PutRecords stores some records of a call and rejects others. Rejected records go back to the
outbox, and nothing of the same key is sent before it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from aiobotocore.session import AioSession  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from tardis_machine.bronze.routing import Route
from tardis_machine.buses.kinesis.errors import (
    DENIED,
    FAILURES,
    code_of,
    describe,
    explained,
    is_passing,
    read_call_error,
    read_record_error,
)
from tardis_machine.buses.kinesis.settings import MAX_CALL_RECORDS, KinesisSettings
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.kinesis.client import KinesisClient
from tardis_machine.sinks.kinesis.in_flight import Call, Lane, Plan
from tardis_machine.sinks.kinesis.leftovers import Leftovers, key_of
from tardis_machine.sinks.kinesis.records import RecordMaker, key_bytes
from tardis_machine.sinks.kinesis.streams import Streams
from tardis_machine.sinks.private_loop import PrivateLoop
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

Member: TypeAlias = tuple[int, Event, bytes]
"""The place of an event in its batch, the event and the data of its record."""

_CLOSED = Result(Outcome.CLIENT_LOST, Reason.CLOSED, "the client is closed")
_CLOSE_SECONDS = 2.0
_LOOK_SECONDS = 0.01
"""How often shards at their limit are looked at again."""
_MIN_CALL_BYTES = 65_536
_PACKED_EVENTS = 10
"""Events per record that a batch has room for, where records are packed."""


class KinesisSink:
    """Publishes events to Kinesis streams."""

    keeps_order = False

    def __init__(self, settings: KinesisSettings, delivery: EventBusSettings) -> None:
        self._settings = settings
        per_record = _PACKED_EVENTS if settings.aggregation == "kpl" else 1
        self.max_batch_events = settings.max_batch_size * settings.max_in_flight * per_record
        self.max_batch_bytes = settings.max_batch_bytes * settings.max_in_flight
        self.max_batch_delay_seconds = settings.max_batch_delay_ms / 1000
        is_single = settings.ordering == "strict" or settings.aggregation == "kpl"
        self._per_lane = 1 if is_single and delivery.ordering == "key" else MAX_CALL_RECORDS
        self._is_unordered = delivery.ordering == "none" and settings.aggregation == "off"
        is_in_batches = not is_single and delivery.ordering == "key"
        self._leftovers = Leftovers() if is_in_batches else None
        self._call_bytes = settings.max_batch_bytes
        self._call_seconds = (settings.request_timeout_ms + settings.connect_timeout_ms) / 1000
        self._records = RecordMaker(settings)
        self._streams = Streams(settings)
        self._loop = PrivateLoop()
        self._session: AioSession | None = None
        self._client: KinesisClient | None = None

    def open(self) -> None:
        """Make a client and check the credentials."""
        self._loop.run(self._end(_CLOSE_SECONDS))
        try:
            self._client = self._loop.run(self._open())
        except FAILURES as error:
            raise explained(error) from error

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        """Put events into as many calls as they need and wait for their answers."""
        if self._client is None:
            return [_CLOSED] * len(events)
        return self._loop.run(self._send(self._client, events))

    def idle(self, seconds: float) -> None:
        """Let the client close connections that were idle for long."""
        self._loop.idle(seconds)

    def close(self, seconds: float) -> None:
        """Close all connections."""
        self._loop.run(self._end(seconds))
        self._loop.close()

    async def _open(self) -> KinesisClient:
        if self._session is None:
            self._session = AioSession(profile=self._settings.profile)
        client = KinesisClient(self._settings)
        try:
            await client.open(self._session)
            await _probe(client.api)
        except BaseException:
            await client.close()
            raise
        return client

    async def _end(self, seconds: float) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await client.close()
        except TimeoutError:
            log.debug("timeout while closing connections")

    async def _send(self, client: KinesisClient, events: Sequence[Event]) -> list[Result]:
        if client.is_expiring:
            return [
                Result(
                    Outcome.CLIENT_LOST,
                    Reason.EXPIRED_TOKEN,
                    "the credentials of the role are renewed",
                )
            ] * (len(events))
        refusals = await self._find_streams(client.api, events)
        plan = self._plan(events, refusals)
        await self._run(client.api, plan)
        if self._leftovers is not None:
            self._leftovers.note(events, plan.failed)
        return plan.results()

    async def _find_streams(self, api: Any, events: Sequence[Event]) -> dict[str, Result]:
        """Look up streams that are used first; return why some cannot be used."""
        names = {event.route.destination for event in events}
        refusals: dict[str, Result] = {}
        lost: Result | None = None
        for name in sorted(name for name in names if name not in self._streams):
            # Where nobody answers, the others need not be asked for.
            if (refusal := lost) is None:
                try:
                    refusal = await self._streams.find(api, name)
                except FAILURES as error:
                    refusal = lost = Result(
                        Outcome.CLIENT_LOST, Reason.UNREACHABLE, describe(error)
                    )
            if refusal is not None:
                refusals[name] = refusal
        return refusals

    def _plan(self, events: Sequence[Event], refusals: dict[str, Result]) -> Plan:
        """Sort events by key and make their records."""
        settled: list[tuple[int, Result]] = []
        keys: dict[Any, list[Member]] = {}
        for route, places in _by_route(events):
            refusal = refusals.get(route.destination)
            if refusal is not None:
                settled += [(place, refusal) for place in places]
                continue
            limit = self._streams[route.destination].max_record_bytes - key_bytes(route.key)
            members = [
                (place, events[place], self._records.data(events[place])) for place in places
            ]
            if max([len(data) for _, _, data in members]) > limit:
                settled += [
                    (place, self._too_large(event, data))
                    for place, event, data in members
                    if len(data) > limit
                ]
                members = [member for member in members if len(member[2]) <= limit]
            self._sort(members, keys)
        plan = Plan(
            len(events),
            [self._lane(members) for members in keys.values()],
            per_lane=self._per_lane,
            max_records=self._settings.max_batch_size,
            max_bytes=self._call_bytes,
        )
        for place, refusal in settled:
            plan.settle([place], refusal)
        return plan

    def _sort(self, members: list[Member], keys: dict[Any, list[Member]]) -> None:
        """Put events of one route to those of the same key."""
        if self._is_unordered:
            keys |= {member[0]: [member] for member in members}
        elif members:
            key = key_of(members[0][1])
            # Several series may share a key.
            keys[key] = sorted(keys[key] + members) if key in keys else members

    def _lane(self, members: Sequence[Member]) -> Lane:
        name = members[0][1].route.destination
        leading = 0
        if self._leftovers is not None:
            leading = self._leftovers.leading([event for _, event, _ in members])
        return Lane(name, self._records.packed(members), self._streams[name].shards, leading)

    def _too_large(self, event: Event, data: bytes) -> Result:
        size = len(data) + key_bytes(event.route.key)
        limit = self._streams[event.route.destination].max_record_bytes
        return Result(Outcome.BAD_RECORD, Reason.TOO_LARGE, f"{size} bytes with key, limit {limit}")

    async def _run(self, api: Any, plan: Plan) -> None:
        """Make the calls of a plan, several at once."""
        calls: set[asyncio.Task[None]] = set()
        try:
            while calls or plan.is_waiting:
                while len(calls) < self._settings.max_in_flight and (call := plan.next_call()):
                    calls.add(asyncio.create_task(self._put(api, plan, call)))
                if not calls:
                    await asyncio.sleep(_LOOK_SECONDS)
                    continue
                seconds = _LOOK_SECONDS if plan.is_waiting else None
                done, calls = await asyncio.wait(
                    calls, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
        finally:
            for task in calls:
                task.cancel()

    async def _put(self, api: Any, plan: Plan, call: Call) -> None:
        """Make one call and note what became of its records."""
        entries = [record.entry for _, record in call.records]
        address = self._streams[call.stream].address
        try:
            async with asyncio.timeout(self._call_seconds):
                answer = await api.put_records(Records=entries, **address)
        except FAILURES as error:
            result = read_call_error(error, events=call.events)
            self._learn(call, result)
            plan.finish(call, [result] * len(entries))
            if result.outcome is Outcome.CLIENT_LOST:
                plan.stop(result)
            return
        plan.finish(call, self._read(call, answer))
        await self._notice(api, call.stream, answer["Records"])

    def _read(self, call: Call, answer: dict[str, Any]) -> list[Result]:
        """Return the results of the records of a call."""
        stored = answer["Records"]
        log.debug("PutRecords succeeded", stream=call.stream, records=len(stored), last=stored[-1])
        if not answer.get("FailedRecordCount"):
            return [OK] * len(stored)
        results = []
        for (lane, record), one in zip(call.records, stored, strict=True):
            result = OK
            if "ErrorCode" in one:
                result = read_record_error(one["ErrorCode"], one.get("ErrorMessage", ""))
                lane.note(record, result)
            results.append(result)
        return results

    def _learn(self, call: Call, result: Result) -> None:
        """Draw the conclusions from a call that failed as a whole."""
        match result.reason:
            case Reason.NO_DESTINATION:
                self._streams.forget(call.stream)
            case Reason.EXPIRED_TOKEN:
                # A new one reads the credentials again.
                self._session = None
            case Reason.CALL_TOO_LARGE:
                self._call_bytes = max(_MIN_CALL_BYTES, call.size_bytes // 2)
            case Reason.THROTTLED:
                for lane, record in call.records:
                    lane.note(record, result)

    async def _notice(self, api: Any, stream: str, stored: Sequence[dict[str, Any]]) -> None:
        shard_ids = {one["ShardId"] for one in stored if "ShardId" in one}
        try:
            await self._streams.notice(api, stream, shard_ids)
        except FAILURES as error:
            log.debug("ListShards failed", stream=stream, error=describe(error))


def _by_route(events: Sequence[Event]) -> Iterable[tuple[Route, list[int]]]:
    """Return the places of the events of each route; all events of a series have the same one."""
    places: dict[int, list[int]] = {}
    for place, event in enumerate(events):
        places.setdefault(id(event.route), []).append(place)
    return [(events[found[0]].route, found) for found in places.values()]


async def _probe(api: Any) -> None:
    """Check the credentials with a cheap call, for which permission is not required."""
    try:
        await api.list_streams(Limit=1)
    except ClientError as error:
        if code_of(error) not in DENIED and not is_passing(error):
            raise SinkError(f"Kinesis rejected the credentials: {describe(error)}") from error
