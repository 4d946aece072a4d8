"""What is known of the streams: their names for calls, their limits, their shards."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from tardis_machine.buses.kinesis.client import stream_argument
from tardis_machine.buses.kinesis.errors import (
    DENIED,
    NOT_FOUND,
    code_of,
    describe,
    read_call_error,
)
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.buses.results import Result
from tardis_machine.sinks.kinesis.shards import Shards
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_KIB = 1024
_LOOK_AGAIN_SECONDS = 60.0
"""When to repeat a lookup that was denied."""
_RELIST_SECONDS = 5.0
"""Shards of one stream are listed at most so often."""
_POLL_SECONDS = 0.1


@dataclass(slots=True)
class Stream:
    """One stream as far as the service describes it."""

    address: dict[str, str]
    """What names it in a call."""
    max_record_bytes: int
    shards: Shards | None = None
    listed_at: float = 0.0
    look_again_at: float = float("inf")


class Streams:
    """Looks streams up when they are used first, and creates missing ones when that is wanted."""

    def __init__(self, settings: KinesisSettings) -> None:
        self._settings = settings
        self._known: dict[str, Stream] = {}

    def __contains__(self, name: str) -> bool:
        stream = self._known.get(name)
        return stream is not None and time.monotonic() < stream.look_again_at

    def __getitem__(self, name: str) -> Stream:
        return self._known[name]

    def forget(self, name: str) -> None:
        """Look a stream up again before its next use."""
        self._known.pop(name, None)

    async def find(self, api: Any, name: str) -> Result | None:
        """Look a stream up; return why it cannot be sent to, if so.

        Errors of the connection are raised. A service that does not let us look is no reason not
        to send.
        """
        try:
            summary = await self._describe(api, name)
        except ClientError as error:
            return self._not_described(name, error)
        stream = Stream(
            address={"StreamARN": summary["StreamARN"]},
            max_record_bytes=self._limit(summary.get("MaxRecordSizeInKiB")),
        )
        await self._list_shards(api, stream)
        self._known[name] = stream
        return None

    async def notice(self, api: Any, name: str, shard_ids: set[str]) -> None:
        """List the shards again when a result names one that was not there."""
        stream = self._known[name]
        if stream.shards is None or shard_ids <= stream.shards.ids:
            return
        if time.monotonic() - stream.listed_at >= _RELIST_SECONDS:
            await self._list_shards(api, stream)

    async def _describe(self, api: Any, name: str) -> dict[str, Any]:
        address = stream_argument(name)
        try:
            return await _summary(api, address)
        except ClientError as error:
            if code_of(error) != NOT_FOUND or self._settings.create_stream == "off":
                raise
        await self._create(api, name)
        return await _summary(api, address)

    async def _create(self, api: Any, name: str) -> None:
        """Create a stream and wait, not for ever, until it takes records."""
        wanted = self._settings.create_stream
        mode: dict[str, Any] = {"StreamModeDetails": {"StreamMode": "ON_DEMAND"}}
        if wanted != "on-demand":
            mode = {"ShardCount": int(wanted)}
        await api.create_stream(StreamName=name.rpartition("/")[2], **mode)
        log.info("stream created", stream=name, shards=wanted)
        deadline = time.monotonic() + self._settings.request_timeout_ms / 1000
        while time.monotonic() < deadline:
            if (await _summary(api, stream_argument(name)))["StreamStatus"] == "ACTIVE":
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _not_described(self, name: str, error: ClientError) -> Result | None:
        refusal = read_call_error(error, events=0)
        if code_of(error) not in DENIED:
            return refusal
        log.warning(
            "DescribeStreamSummary denied; shard limits unknown",
            stream=name,
            error=describe(error),
        )
        self._known[name] = Stream(
            address=stream_argument(name),
            max_record_bytes=self._limit(None),
            look_again_at=time.monotonic() + _LOOK_AGAIN_SECONDS,
        )
        return None

    async def _list_shards(self, api: Any, stream: Stream) -> None:
        """List the shards, for pacing; without them nothing is slowed down."""
        stream.listed_at = time.monotonic()
        rate = self._settings.max_shard_rate
        if rate == 0:
            return
        try:
            page = await api.list_shards(**stream.address)
            found = list(page["Shards"])
            while "NextToken" in page:
                page = await api.list_shards(NextToken=page["NextToken"])
                found += page["Shards"]
        except ClientError as error:
            log.warning("ListShards failed; calls are not rate limited", error=describe(error))
            stream.look_again_at = time.monotonic() + _LOOK_AGAIN_SECONDS
            return
        stream.shards = Shards(found, rate)

    def _limit(self, stream_kib: int | None) -> int:
        own = self._settings.max_record_bytes
        return own if stream_kib is None else min(own, stream_kib * _KIB)


async def _summary(api: Any, address: dict[str, str]) -> dict[str, Any]:
    answer = await api.describe_stream_summary(**address)
    found: dict[str, Any] = answer["StreamDescriptionSummary"]
    return found
