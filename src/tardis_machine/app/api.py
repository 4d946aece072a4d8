"""The Python API: replay, normalize, compute and combine without a server."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from tardis_machine.app.settings.keywords import settings_of
from tardis_machine.exchanges.lines import MESSAGE_START
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
from tardis_machine.session.context import SessionContext
from tardis_machine.session.plan import NormalizedPlan, RawPlan, plan_normalized, plan_raw
from tardis_machine.session.run import client_lines, client_records
from tardis_machine.session.streams import RecordStream, combined_chunks, computed_chunks
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.clock import system_clock

Instant: TypeAlias = str | datetime
"""A time such as `2024-03-01` or `2024-03-01T00:05`; UTC, unless it has an offset of its own."""


class RawMessage(msgspec.Struct, frozen=True):
    """One message as the exchange sent it."""

    local_timestamp: str
    """When the recorder got it, with seven fractional digits."""

    message: bytes

    @property
    def local_time_us(self) -> int:
        """Return the arrival time in microseconds."""
        return parse_us(self.local_timestamp)


def replay(
    exchange: str,
    start: Instant,
    end: Instant,
    *,
    filters: Iterable[Filter] = (),
    with_disconnects: bool = False,
    exact_range: bool = False,
    speed: float | None = None,
    auto_cleanup: bool = False,
    wait_when_data_not_yet_available: bool | float = False,
    **archive: Any,
) -> AsyncGenerator[RawMessage | None, None]:
    """Return raw messages in the order of recording; None stands for a disconnect.

    Wrap the result in `contextlib.aclosing` when you may stop early.

    Args:
        exchange: exchange id, such as `bitmex`.
        start: first minute.
        end: the minute after the last one.
        filters: channels and symbols; none means the whole feed.
        with_disconnects: yield None where the recorder lost its connection.
        exact_range: cut at `start` and `end` themselves instead of at their minutes.
        speed: 1 replays at recorded speed, 2 twice as fast; None as fast as possible.
        auto_cleanup: delete each cached slice when it was read.
        wait_when_data_not_yet_available: wait for data of the last minutes; True takes it to be
            there after 30 minutes, a number after that many.
        archive: options of the archive: `api_key`, `cache_dir`, `offline`, `endpoint` and so on.
    """
    request = ReplayRequest(
        exchange=exchange,
        start=_text(start),
        end=_text(end),
        filters=[msgspec.to_builtins(entry) for entry in filters],
        with_disconnects=with_disconnects,
        exact_range=exact_range,
        speed=speed,
        auto_cleanup=auto_cleanup,
        wait_when_data_not_yet_available=wait_when_data_not_yet_available,
    )
    return _raw_messages(plan_raw(request), _archive(archive))


def replay_normalized(
    exchange: str,
    start: Instant,
    end: Instant,
    *,
    data_types: str | Sequence[str],
    symbols: str | Sequence[str] | None = None,
    with_disconnects: bool = False,
    exact_range: bool = False,
    speed: float | None = None,
    trim_levels: bool = False,
    auto_cleanup: bool = False,
    wait_when_data_not_yet_available: bool | float = False,
    **archive: Any,
) -> RecordStream:
    """Return normalized records in the order of recording, computed types included.

    Args:
        exchange: exchange id, such as `bitmex`.
        start: first minute; order books need the start of a UTC day.
        end: the minute after the last one.
        data_types: such as `trade`, `book_change`, `book_snapshot_5_100ms`, `trade_bar_1m`; one
            of them or several.
        symbols: one or several; None means all.
        with_disconnects: include `Disconnect` records; they also reset computed types.
        exact_range: cut at `start` and `end` themselves instead of at their minutes.
        speed: 1 replays at recorded speed, 2 twice as fast; None as fast as possible.
        trim_levels: leave levels that a book lacks out of its snapshots.
        auto_cleanup: delete each cached slice when it was read.
        wait_when_data_not_yet_available: wait for data of the last minutes; True takes it to be
            there after 30 minutes, a number after that many.
        archive: options of the archive: `api_key`, `cache_dir`, `offline`, `endpoint` and so on.
    """
    types = _names(data_types)
    check_data_types(types)
    request = NormalizedReplayRequest(
        exchange=exchange,
        symbols=None if symbols is None else _names(symbols),
        start=_text(start),
        end=_text(end),
        data_types=types,
        with_disconnect_messages=with_disconnects,
        exact_range=exact_range,
        speed=speed,
        trim_levels=trim_levels,
        auto_cleanup=auto_cleanup,
        wait_when_data_not_yet_available=wait_when_data_not_yet_available,
    )
    plan = plan_normalized([request], system_clock())
    return RecordStream(_record_chunks(plan, _archive(archive)))


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


async def _raw_messages(
    plan: RawPlan, archive: ArchiveSettings
) -> AsyncGenerator[RawMessage | None, None]:
    async with (
        ArchiveSource(archive) as source,
        aclosing(client_lines(plan, SessionContext(source, system_clock))) as chunks,
    ):
        async for lines in chunks:
            for line in lines:
                yield _raw_message(line) if line else None


def _raw_message(line: bytes) -> RawMessage:
    return RawMessage(str(line[: MESSAGE_START - 1], "ascii"), line[MESSAGE_START:])


async def _record_chunks(
    plan: NormalizedPlan, archive: ArchiveSettings
) -> AsyncGenerator[list[Record], None]:
    async with (
        ArchiveSource(archive) as source,
        aclosing(client_records(plan, SessionContext(source, system_clock))) as chunks,
    ):
        async for records in chunks:
            yield records


def _archive(options: dict[str, Any]) -> ArchiveSettings:
    return settings_of(ArchiveSettings, options)


def _text(instant: Instant) -> str:
    return instant.isoformat() if isinstance(instant, datetime) else instant


def _names(given: str | Sequence[str]) -> list[str]:
    """Return the names that were given; a text is one name, not its letters."""
    return [given] if isinstance(given, str) else list(given)


def _spec(data_type: str | ComputedSpec) -> ComputedSpec:
    if not isinstance(data_type, str):
        return data_type
    spec = parse_computed(data_type)
    if spec is None:
        raise UnknownNameError("computed data type", data_type, COMPUTED_PATTERNS)
    return spec
