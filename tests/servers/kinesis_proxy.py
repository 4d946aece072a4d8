"""An HTTP proxy before a Kinesis server that spoils PutRecords calls as planned."""

import asyncio
import socket
import struct
import time
from collections import deque
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from tests.servers.faults import AbortAfter, AbortBefore, Delay, FaultPlan
from tests.servers.kinesis_faults import (
    FailCall,
    FailRecords,
    Fault,
    HashRange,
    PutCall,
    PutRecord,
    ShardLimit,
    hash_key,
)
from tests.servers.threaded import ServerThread

PREFIX = "Kinesis_20131202."
CONTENT_TYPE = "application/x-amz-json-1.1"
MAX_REQUEST_BYTES = 32 * 1024 * 1024
ON_DEMAND_SHARDS = 4
CALLS_KEPT = 10_000
SHARDS_KEPT_SECONDS = 0.5
# Node closes idle connections after 5 s; ours must be gone before.
IDLE_SECONDS = 1
LINGER_RESET = struct.pack("ii", 1, 0)


class KinesisProxy(ServerThread):
    """Forward every call to `target`; PutRecords meets the next fault of the plan.

    A planned fault is used once. When the plan is empty, `always` applies, until `heal`.
    The proxy also teaches an older server StreamARN and on-demand streams.
    """

    def __init__(self, target: str, *, port: int | None = None) -> None:
        super().__init__(port=port)
        self._target = f"http://{target}/"
        self._plan: FaultPlan[Fault] = FaultPlan()
        self._every_call: FailCall | None = None
        self._limit: ShardLimit | None = None
        self._ranges: dict[str, tuple[list[HashRange], float]] = {}
        self.calls: deque[PutCall] = deque(maxlen=CALLS_KEPT)

    def address_at(self, endpoint: str) -> str:
        """Return the endpoint URL."""
        return f"http://{endpoint}"

    def plan(self, *faults: Fault) -> None:
        """Spoil the next PutRecords calls, one fault each, in this order."""
        self.do(lambda: self._plan.extend(faults))

    def always(self, fault: Fault) -> None:
        """Spoil every PutRecords call after the plan."""
        self.do(lambda: self._plan.repeat(fault))

    def refuse_every_call(self, fault: FailCall) -> None:
        """Refuse all operations, not only PutRecords, as a service does a bad login."""
        self.do(lambda: setattr(self, "_every_call", fault))

    def limit_shards(self, limit: ShardLimit) -> None:
        """Refuse records above the rate of their shard."""
        self.do(lambda: setattr(self, "_limit", limit))

    def heal(self) -> None:
        """Forget every fault and listen again."""
        super().heal()
        self.do(self._forget_faults)

    def _forget_faults(self) -> None:
        self._plan.clear()
        self._every_call, self._limit = None, None

    async def open(self) -> None:
        """Listen on the port."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS)
        self._client = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        application = web.Application(client_max_size=MAX_REQUEST_BYTES)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def shut(self) -> None:
        """Stop listening and reset every connection."""
        server = self._runner.server
        for connection in [] if server is None else list(server.connections):
            _reset(connection.transport)
        await self._runner.cleanup()
        await self._client.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        # The server behind dies of a request that breaks off, so it only gets whole ones.
        body = await request.read()
        operation = request.headers.get("X-Amz-Target", "").removeprefix(PREFIX)
        if self._every_call is not None:
            return _refusal(self._every_call)
        try:
            if operation == "PutRecords":
                return await self._put(request, _with_name(msgspec.json.decode(body)))
            if operation == "CreateStream" or b'"StreamARN"' in body:
                body = msgspec.json.encode(_with_name(msgspec.json.decode(body)))
            return _reply(*await self._forward(request, body))
        except aiohttp.ClientConnectionError:
            return _abort(request, is_reset=True)

    async def _put(self, request: web.Request, call: dict[str, Any]) -> web.StreamResponse:
        fault = self._plan.take()
        records = await self._records(request, call)
        refused = self._refused(records, fault)
        stream = call["StreamName"]
        self.calls.append(PutCall(stream=stream, records=records, refused=frozenset(refused)))
        match fault:
            case FailCall():
                return _refusal(fault)
            case AbortBefore(is_reset):
                return _abort(request, is_reset=is_reset)
            case Delay(seconds):
                await asyncio.sleep(seconds)
        status, body = await self._store(request, call, refused)
        if isinstance(fault, AbortAfter):
            return _abort(request, is_reset=fault.is_reset)
        return _reply(status, body)

    def _refused(self, records: tuple[PutRecord, ...], fault: Fault) -> dict[int, str]:
        refused: dict[int, str] = {}
        for record in records:
            if isinstance(fault, FailRecords) and fault.is_refused(record):
                refused[record.position] = fault.code
            elif self._limit is not None and not self._limit.admits(record):
                refused[record.position] = FailRecords.code
        return refused

    async def _store(
        self, request: web.Request, call: dict[str, Any], refused: dict[int, str]
    ) -> tuple[int, bytes]:
        wanted = call["Records"]
        kept = [record for n, record in enumerate(wanted) if n not in refused]
        results: list[dict[str, Any]] = []
        if kept:
            body = msgspec.json.encode(call | {"Records": kept})
            status, answer = await self._forward(request, body)
            if status != web.HTTPOk.status_code:
                return status, answer
            results = msgspec.json.decode(answer)["Records"]
        stored = iter(results)
        merged = [
            {"ErrorCode": refused[n], "ErrorMessage": "refused by the fault proxy"}
            if n in refused
            else next(stored)
            for n in range(len(wanted))
        ]
        answer = msgspec.json.encode({"FailedRecordCount": len(refused), "Records": merged})
        return web.HTTPOk.status_code, answer

    async def _records(self, request: web.Request, call: dict[str, Any]) -> tuple[PutRecord, ...]:
        ranges = await self._shards(request, call["StreamName"])
        return tuple(
            PutRecord(
                position=position,
                partition_key=record["PartitionKey"],
                shard_id=_shard_of(record, ranges),
                data=record["Data"],
            )
            for position, record in enumerate(call["Records"])
        )

    async def _shards(self, request: web.Request, stream: str) -> list[HashRange]:
        now = time.monotonic()
        known, since = self._ranges.get(stream, ([], 0.0))
        if known and now - since < SHARDS_KEPT_SECONDS:
            return known
        found = await self._list_shards(request, stream)
        self._ranges[stream] = (found, now)
        return found

    async def _list_shards(self, request: web.Request, stream: str) -> list[HashRange]:
        body = msgspec.json.encode({"StreamName": stream})
        status, answer = await self._forward(request, body, "ListShards")
        if status != web.HTTPOk.status_code:
            return []
        return [
            HashRange(
                shard["ShardId"],
                int(shard["HashKeyRange"]["StartingHashKey"]),
                int(shard["HashKeyRange"]["EndingHashKey"]),
            )
            for shard in msgspec.json.decode(answer)["Shards"]
            if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
        ]

    async def _forward(
        self, request: web.Request, body: bytes, operation: str | None = None
    ) -> tuple[int, bytes]:
        kept = ("Authorization", "X-Amz-Date", "X-Amz-Target", "Content-Type")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        if operation is not None:
            headers["X-Amz-Target"] = PREFIX + operation
        async with self._client.post(self._target, data=body, headers=headers) as answer:
            return answer.status, await answer.read()


def _with_name(call: dict[str, Any]) -> dict[str, Any]:
    if "StreamName" not in call and "StreamARN" in call:
        call["StreamName"] = call["StreamARN"].rpartition("/")[2]
    if "StreamModeDetails" in call and "ShardCount" not in call:
        call["ShardCount"] = ON_DEMAND_SHARDS
    return call


def _shard_of(record: dict[str, Any], ranges: list[HashRange]) -> str:
    explicit = record.get("ExplicitHashKey")
    key = hash_key(record["PartitionKey"]) if explicit is None else int(explicit)
    return next((r.shard_id for r in ranges if r.first <= key <= r.last), "")


def _reply(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type=CONTENT_TYPE)


def _refusal(fault: FailCall) -> web.Response:
    body = msgspec.json.encode({"__type": fault.code, "message": fault.message})
    return _reply(fault.status, body)


def _abort(request: web.Request, *, is_reset: bool) -> web.Response:
    if is_reset:
        _reset(request.transport)
    elif request.transport is not None:
        request.transport.close()
    # Nobody is left to read it.
    return web.Response()


def _reset(transport: asyncio.BaseTransport | None) -> None:
    if isinstance(transport, asyncio.Transport):
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        transport.abort()
