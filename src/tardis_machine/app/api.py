"""The Python API: replay, normalize, compute and combine without a server."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Sequence
from contextlib import aclosing

import msgspec

from tardis_machine.app.wiring import system_clock
from tardis_machine.exchanges.normalizer import MESSAGE_START
from tardis_machine.model.data_types import (
    COMPUTED_PATTERNS,
    ComputedSpec,
    check_data_types,
    parse_computed,
)
from tardis_machine.model.errors import UnknownNameError
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter, NormalizedReplayRequest, ReplayRequest
from tardis_machine.model.time import parse_us
from tardis_machine.session.plan import NormalizedPlan, plan_normalized, plan_raw
from tardis_machine.session.run import client_lines, client_records
from tardis_machine.session.streams import RecordStream, combined_chunks, computed_chunks
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.settings import ArchiveSettings


class RawMessage(msgspec.Struct, frozen=True):
    """One message as the exchange sent it."""

    local_timestamp: str
    """When the recorder got it, with seven fractional digits."""

    message: bytes

    @property
    def local_time_us(self) -> int:
        """Return the arrival time in microseconds."""
        return parse_us(self.local_timestamp)


async def replay(
    exchange: str,
    start: str,
    end: str,
    *,
    filters: Iterable[Filter] = (),
    with_disconnects: bool = False,
    speed: float | None = None,
    archive: ArchiveSettings | None = None,
) -> AsyncIterator[RawMessage | None]:
    """Yield raw messages between two UTC dates; None stands for a disconnect.

    Args:
        exchange: exchange id, such as `bitmex`.
        start: first minute, such as `2024-03-01` or `2024-03-01T00:05`.
        end: the minute after the last one.
        filters: channels and symbols; none means the whole feed.
        with_disconnects: yield None where the recorder lost its connection.
        speed: 1 replays at recorded speed, 2 twice as fast; None as fast as possible.
        archive: where data comes from: key, cache folder, offline.
    """
    plan = plan_raw(
        ReplayRequest(
            exchange=exchange,
            start=start,
            end=end,
            filters=[msgspec.to_builtins(entry) for entry in filters],
            with_disconnects=with_disconnects,
            speed=speed,
        )
    )
    async with (
        ArchiveSource(archive or ArchiveSettings()) as source,
        aclosing(client_lines(plan, source)) as chunks,
    ):
        async for lines in chunks:
            for line in lines:
                yield (
                    RawMessage(str(line[: MESSAGE_START - 1], "ascii"), line[MESSAGE_START:])
                    if line
                    else None
                )


def replay_normalized(
    exchange: str,
    start: str,
    end: str,
    *,
    data_types: Sequence[str],
    symbols: Sequence[str] | None = None,
    with_disconnects: bool = False,
    speed: float | None = None,
    archive: ArchiveSettings | None = None,
) -> RecordStream:
    """Return normalized records between two UTC dates, computed types included.

    Args:
        exchange: exchange id, such as `bitmex`.
        start: first minute, such as `2024-03-01`; order books need the start of a UTC day.
        end: the minute after the last one.
        data_types: such as `trade`, `book_change`, `book_snapshot_5_100ms`, `trade_bar_1m`.
        symbols: None means all.
        with_disconnects: include `Disconnect` records; they also reset computed types.
        speed: 1 replays at recorded speed, 2 twice as fast; None as fast as possible.
        archive: where data comes from: key, cache folder, offline.
    """
    check_data_types(data_types)
    request = NormalizedReplayRequest(
        exchange=exchange,
        symbols=None if symbols is None else list(symbols),
        start=start,
        end=end,
        data_types=list(data_types),
        with_disconnect_messages=with_disconnects,
        speed=speed,
    )
    plan = plan_normalized([request], system_clock())
    return RecordStream(_planned_chunks(plan, archive or ArchiveSettings()))


def compute(records: AsyncIterable[Record], *data_types: str | ComputedSpec) -> RecordStream:
    """Return the records of a stream, each followed by the computed ones it triggers.

    Args:
        records: normalized records, in order.
        data_types: names such as `quote` or `trade_bar_10s`, or specs.
    """
    return RecordStream(computed_chunks(records, [_spec(each) for each in data_types]))


def combine(*streams: AsyncIterable[Record]) -> RecordStream:
    """Merge streams of records by local time; equal times keep the order of the streams."""
    return RecordStream(combined_chunks(streams))


async def _planned_chunks(
    plan: NormalizedPlan, archive: ArchiveSettings
) -> AsyncGenerator[list[Record], None]:
    async with (
        ArchiveSource(archive) as source,
        aclosing(client_records(plan, source, system_clock)) as chunks,
    ):
        async for records in chunks:
            yield records


def _spec(data_type: str | ComputedSpec) -> ComputedSpec:
    if not isinstance(data_type, str):
        return data_type
    spec = parse_computed(data_type)
    if spec is None:
        raise UnknownNameError("computed data type", data_type, COMPUTED_PATTERNS)
    return spec
