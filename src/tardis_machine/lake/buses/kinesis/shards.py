"""Kinesis by botocore: streams, their shards, and pages of records."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import botocore.session  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from tardis_machine.buses.kinesis.client import (
    client_options,
    role_login,
    role_request,
    stream_argument,
    timeouts,
)
from tardis_machine.buses.kinesis.errors import EXPIRED, FAILURES, NOT_FOUND, code_of, explained
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.lake.buses.names import StreamNames
from tardis_machine.lake.errors import BusError, BusUnavailableError
from tardis_machine.model.errors import SinkUnavailableError

MAX_PAGE_RECORDS = 10_000
ATTEMPTS = 8
POOL = 16

_EXPIRED_ITERATOR = "ExpiredIteratorException"
_INVALID = "InvalidArgumentException"


class ForeignPositionError(BusError):
    """A sequence number is not one of the shard: the stream was deleted and recreated."""


@dataclass(frozen=True)
class Shard:
    """One shard of a stream."""

    name: str
    parents: tuple[str, ...]
    is_closed: bool
    """It takes no new records, and others took its place."""


class RecordPage(NamedTuple):
    """What one call returns."""

    records: list[dict[str, Any]]
    is_full: bool
    """The full number requested, so that there may be more."""
    read_to: float
    """Monotonic time up to which the shard is now read."""
    is_last: bool
    """The shard is closed, and this is its end."""


class KinesisApi:
    """Calls of Kinesis; the client tries passing failures again by itself."""

    def __init__(self, settings: KinesisSettings) -> None:
        self._settings = settings
        self._client: Any = None

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def streams(self, names: StreamNames) -> list[str]:
        """Return the streams to read."""
        listed = self._listed() if names.globs else ()
        return sorted({*names.literals, *filter(names.match, listed)})

    def _listed(self) -> Iterator[str]:
        place: dict[str, str] = {}
        while True:
            answer = self._call(_list_streams(place))
            yield from answer["StreamNames"]
            if not answer["HasMoreStreams"]:
                return
            place = {"ExclusiveStartStreamName": answer["StreamNames"][-1]}

    def shards(self, stream: str) -> list[Shard]:
        """Return the shards that have records or are open."""
        pages = self._call(
            lambda client: list(
                client.get_paginator("list_shards").paginate(**stream_argument(stream))
            )
        )
        return [_shard(each) for page in pages for each in page["Shards"]]

    def retention_ms(self, stream: str) -> int:
        """Return the retention period of a stream."""
        return int(self._summary(stream)["RetentionPeriodHours"]) * 3_600_000

    def created(self, stream: str) -> str | None:
        """Return account and time of creation of a stream; None when that may not be read."""
        try:
            summary = self._summary(stream)
        except BusUnavailableError:
            raise
        except BusError:
            return None
        return f"{summary['StreamARN']} {summary['StreamCreationTimestamp'].timestamp():.3f}"

    def _summary(self, stream: str) -> dict[str, Any]:
        answer = self._call(
            lambda client: client.describe_stream_summary(**stream_argument(stream))
        )
        summary: dict[str, Any] = answer["StreamDescriptionSummary"]
        return summary

    def pages(
        self, stream: str, shard: str, after: str, limit: Callable[[], int]
    ) -> Iterator[RecordPage]:
        """Yield pages until the shard ends; a caller that has enough just stops.

        Args:
            stream: Name or ARN.
            shard: Which shard.
            after: Sequence number of the last record read; empty: from the oldest one.
            limit: Gives the size of the next page.
        """
        iterator: str | None = self._iterator(stream, shard, after)
        while iterator is not None:
            count = max(1, min(limit(), MAX_PAGE_RECORDS))
            called_at = time.monotonic()
            try:
                answer = self._records(stream, iterator, count)
            except ExpiredIteratorError:
                iterator = self._iterator(stream, shard, after)
                continue
            records, iterator = answer["Records"], answer.get("NextShardIterator")
            after = records[-1]["SequenceNumber"] if records else after
            behind_seconds = answer.get("MillisBehindLatest", 0) / 1000
            is_full = len(records) == count
            yield RecordPage(records, is_full, called_at - behind_seconds, iterator is None)

    def _iterator(self, stream: str, shard: str, after: str) -> str:
        place = {"ShardIteratorType": "TRIM_HORIZON"}
        if after:
            place = {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": after,
            }
        answer = self._call(
            lambda client: client.get_shard_iterator(
                **stream_argument(stream), ShardId=shard, **place
            ),
            # The sequence number is the only argument that comes from a checkpoint.
            refusals={_INVALID: ForeignPositionError} if after else {},
        )
        return str(answer["ShardIterator"])

    def _records(self, stream: str, iterator: str, count: int) -> dict[str, Any]:
        place = stream_argument(stream) if stream.startswith("arn:") else {}
        answer: dict[str, Any] = self._call(
            lambda client: client.get_records(ShardIterator=iterator, Limit=count, **place),
            refusals={_EXPIRED_ITERATOR: ExpiredIteratorError},
        )
        return answer

    def _call(
        self, ask: Callable[[Any], Any], refusals: dict[str, type[BusError]] | None = None
    ) -> Any:
        try:
            if self._client is None:
                self._client = _make_client(self._settings)
            return ask(self._client)
        except FAILURES as error:
            raise self._meaning(error, refusals or {}) from error

    def _meaning(self, error: Exception, refusals: dict[str, type[BusError]]) -> BusError:
        code = code_of(error) if isinstance(error, ClientError) else ""
        if code in refusals:
            return refusals[code](f"Kinesis: {error}")
        if code in EXPIRED:
            # The next client gets new credentials.
            self.close()
            return BusUnavailableError(f"Kinesis: the credentials have expired: {error}")
        if code == NOT_FOUND:
            return BusError(f"Kinesis: the stream does not exist: {error}")
        found = explained(error)
        is_passing = isinstance(found, SinkUnavailableError)
        return BusUnavailableError(str(found)) if is_passing else BusError(str(found))


class ExpiredIteratorError(BusError):
    """A shard iterator is older than five minutes."""


def _list_streams(place: dict[str, str]) -> Callable[[Any], Any]:
    return lambda client: client.list_streams(**place)


def _shard(described: dict[str, Any]) -> Shard:
    parents = (described.get(name) for name in ("ParentShardId", "AdjacentParentShardId"))
    is_closed = "EndingSequenceNumber" in described["SequenceNumberRange"]
    return Shard(str(described["ShardId"]), tuple(filter(None, parents)), is_closed)


def _make_client(settings: KinesisSettings) -> Any:
    session = botocore.session.Session(profile=settings.profile)
    login = settings.login()
    options = _options(settings)
    if settings.role_arn is not None:
        login = _assumed(settings, session.create_client("sts", **options, **login))
    return session.create_client("kinesis", endpoint_url=settings.endpoint_url, **options, **login)


def _options(settings: KinesisSettings) -> dict[str, Any]:
    config = Config(
        retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        max_pool_connections=POOL,
        **timeouts(settings),
    )
    return client_options(settings, config)


def _assumed(settings: KinesisSettings, sts: Any) -> dict[str, str]:
    return role_login(sts.assume_role(**role_request(settings))["Credentials"])
