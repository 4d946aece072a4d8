"""The streams behind a request, chunk by chunk.

A chunk is what came out of about 64 KiB of recorded lines: one call per chunk and stage, lists
between stages. An empty one says that the next may take a while, so that whoever collects chunks
hands on what there is. Every function here is an async generator that releases its source when
closed.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Protocol

from tardis_machine.computed.pipeline import Computables
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.spec import Emit, Exchange
from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import BookSnapshotSpec, ComputedSpec
from tardis_machine.model.errors import MappingError
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter, ReplayRange
from tardis_machine.model.time import DAY_US, floor_minute, us_text
from tardis_machine.session.context import SessionContext
from tardis_machine.session.mapping import SegmentMapper, small_parts
from tardis_machine.session.plan import (
    ArchiveOptions,
    EntryPlan,
    NormalizedPlan,
    RawPlan,
    Segment,
)
from tardis_machine.session.raw import GapFolder, cut_lines, line_times, split_lines
from tardis_machine.session.sharing import open_entries
from tardis_machine.session.silent_symbols import SilentSymbols, TellSilent
from tardis_machine.session.streams import merged_chunks
from tardis_machine.sources.archive import ArchiveSource, SliceChunk
from tardis_machine.sources.pacing import Pacer
from tardis_machine.sources.recording.mapping import apart, loss_in, tell_loss
from tardis_machine.sources.recording.markers import MARK, without_markers
from tardis_machine.sources.turns import LongTurn

COMPUTED_AT_ONCE = 250
"""Records computed at once. A snapshot on every change multiplies the size of a chunk; smaller ones
stay in memory the allocator already has."""

LEVELS_AT_ONCE = 25_000
"""Levels of snapshots computed at once, at most one record's: deep snapshots are large and slow."""


async def client_lines(plan: RawPlan, context: SessionContext) -> AsyncGenerator[list[bytes], None]:
    """Yield the lines of a plan as fast as they are read, or at the speed the client chose."""
    async with aclosing(raw_lines(plan, context)) as chunks:
        if plan.speed is None:
            async for lines in chunks:
                yield lines
            return
        pacer = Pacer(plan.speed)
        async for lines in chunks:
            if not any(lines):
                # A disconnect alone has no time to wait for.
                yield lines
                continue
            async for due in pacer.pace(lines, line_times(lines)):
                yield due


async def raw_lines(plan: RawPlan, context: SessionContext) -> AsyncGenerator[list[bytes], None]:
    """Yield recorded lines; an empty one is a disconnect, if the client wants to see them."""
    counters = context.metrics.of(plan.exchange.id)
    gaps = GapFolder(keep=plan.with_disconnects, on_disconnect=counters.disconnects.inc)
    select: LineFilter | None = None
    async with aclosing(
        _read(context.source, plan.exchange, plan.filters, plan.range, plan.range, plan.archive)
    ) as chunks:
        async for chunk in chunks:
            lines, needs_local_filter = split_lines(chunk.data), chunk.needs_local_filter
            if MARK in chunk.data:
                lines = without_markers(lines)
            # Who waits for a slow client holds its lines once.
            del chunk
            # Gaps are rare: one search finds them, and only then they are counted.
            gap_count = lines.count(b"") if b"" in lines else 0
            counters.messages.inc(len(lines) - gap_count)
            if needs_local_filter and plan.filters:
                select = select or LineFilter(plan.exchange, plan.filters)
                lines = select.select(lines)
            if plan.is_exact:
                lines = cut_lines(lines, plan.range)
            # Last, because lines between two disconnects may be gone by now.
            lines = gaps.fold(lines, has_gaps=gap_count > 0)
            if lines:
                yield lines


async def client_records(
    plan: NormalizedPlan,
    context: SessionContext,
    on_unseen: Emit | None = None,
    on_silent: TellSilent | None = None,
) -> AsyncGenerator[list[Record], None]:
    """Yield the records of a plan as fast as they are read, or at the speed the client chose.

    `on_unseen` takes the disconnects that the client did not ask to see, `on_silent` at the end the
    symbols that never came.
    """
    async with aclosing(normalized_records(plan, context, on_unseen, on_silent)) as chunks:
        if plan.speed is None:
            async for records in chunks:
                yield records
            return
        pacer = Pacer(plan.speed)
        async for records in chunks:
            times = [record.local_time_us for record in records]
            async for due in pacer.pace(records, times):
                yield due
                yield []


async def normalized_records(
    plan: NormalizedPlan,
    context: SessionContext,
    on_unseen: Emit | None = None,
    on_silent: TellSilent | None = None,
) -> AsyncGenerator[list[Record], None]:
    """Yield the records that reach the client, merged by local time over all entries."""
    async with AsyncExitStack() as stack:
        streams = await open_entries(
            stack, plan.entries, lambda entry: entry_records(entry, context, on_unseen, on_silent)
        )
        merged: AsyncIterator[list[Record]] = (
            streams[0]
            if len(streams) == 1
            else merged_chunks(streams, LongTurn(context.source.turns).pause)
        )
        select = _output_selector(plan)
        async for records in merged:
            yield select(records)
            if len(streams) > 1:
                yield []


async def entry_records(
    entry: EntryPlan,
    context: SessionContext,
    on_unseen: Emit | None = None,
    on_silent: TellSilent | None = None,
) -> AsyncGenerator[list[Record], None]:
    """Yield the records of one entry, source records and computed ones."""
    computables = Computables(entry.computed, trim_levels=entry.trim_levels)
    by_symbol, in_range = _symbol_selector(entry.symbols), _exact_selector(entry)
    turn, at_once = LongTurn(context.source.turns), _computed_at_once(entry.computed)
    silent = SilentSymbols(entry.exchange.id, entry.asked_symbols)
    produced = context.metrics.of(entry.exchange.id).records
    for segment in entry.segments:
        async with aclosing(_mapped_records(entry, segment, context, on_unseen)) as chunks:
            async for mapped in chunks:
                if not mapped:
                    yield mapped
                    continue
                loss = loss_in(mapped)
                if loss is not None:
                    told = tell_loss(loss, computables, entry.asked_symbols)
                    yield in_range(_shown(told, entry, on_unseen))
                    continue
                records = by_symbol(mapped)
                silent.note(records)
                if not entry.computed:
                    passed = in_range(records)
                    produced.inc(len(passed))
                    yield passed
                    continue
                for start in range(0, len(records), at_once):
                    batch = records[start : start + at_once]
                    passed = in_range(computables.apply(batch))
                    produced.inc(len(passed))
                    yield passed
                    await turn.pause()
        if entry.starts_over_daily and not segment.range.end_us % DAY_US:
            yield in_range(computables.start_over(segment.range.end_us))
    silent.warn(on_silent)


async def _mapped_records(
    entry: EntryPlan, segment: Segment, context: SessionContext, on_unseen: Emit | None
) -> AsyncGenerator[list[Record], None]:
    """Yield what the mappers of one segment make of its lines."""
    mapper = SegmentMapper(
        entry.exchange,
        entry.source_types,
        context.clock,
        context.metrics.of(entry.exchange.id),
        with_disconnects=entry.with_disconnects,
        on_unseen=on_unseen,
    )
    wanted = segment.filters, segment.range, entry.range
    async with aclosing(_read(context.source, entry.exchange, *wanted, entry.archive)) as chunks:
        async for chunk in chunks:
            parts = small_parts(chunk.data)
            # Who waits for a slow client holds no raw data but the rest of its chunk.
            del chunk
            for lines in parts:
                records: list[Record] = []
                try:
                    mapper.map_chunk(lines, records.append)
                except MappingError:
                    # What came before the bad message is good and goes out first.
                    yield records
                    raise
                for part in apart(records) if mapper.is_recorded else (records,):
                    yield part
            yield []


def _shown(disconnects: list[Record], entry: EntryPlan, on_unseen: Emit | None) -> list[Record]:
    """Return the disconnects of a recording that a client wants to see."""
    if entry.with_disconnects:
        return disconnects
    if on_unseen is not None:
        for record in disconnects:
            on_unseen(record)
    return []


def _computed_at_once(specs: Sequence[ComputedSpec]) -> int:
    """Return how many records to compute at once, fewer the more levels each may give."""
    levels = sum(spec.depth for spec in specs if isinstance(spec, BookSnapshotSpec))
    return min(COMPUTED_AT_ONCE, LEVELS_AT_ONCE // levels or 1) if levels else COMPUTED_AT_ONCE


class _Selector(Protocol):
    def __call__(self, records: list[Record]) -> list[Record]: ...


def _read(
    source: ArchiveSource,
    exchange: Exchange,
    filters: Sequence[Filter],
    range_: ReplayRange,
    whole_range: ReplayRange,
    options: ArchiveOptions,
) -> AsyncGenerator[SliceChunk, None]:
    """Read whole minutes that cover a range."""
    minutes = ReplayRange(floor_minute(range_.start_us), -floor_minute(-range_.end_us))
    return source.lines(
        exchange.id,
        filters,
        minutes,
        api_key=options.api_key,
        auto_cleanup=options.auto_cleanup,
        wait_minutes=options.wait_minutes,
        whole_range=whole_range,
    )


def _symbol_selector(symbols: frozenset[str] | None) -> _Selector:
    """Keep records of the symbols asked for, and disconnects, which concern all."""
    if symbols is None:
        return _everything
    return _in_place(
        lambda records: [
            record for record in records if type(record) is Disconnect or record.symbol in symbols
        ]
    )


def _exact_selector(entry: EntryPlan) -> _Selector:
    if not entry.is_exact:
        return _everything
    start, end = us_text(entry.range.start_us), us_text(entry.range.end_us)
    return _in_place(
        lambda records: [record for record in records if start <= record.local_timestamp < end]
    )


def _output_selector(plan: NormalizedPlan) -> _Selector:
    """Keep the record types that reach the client."""
    exchanges = {entry.exchange.id for entry in plan.entries}
    if _passes_everything(plan):
        return _everything
    if len(exchanges) == 1:
        classes = plan.output.classes(exchanges.pop())
        return _in_place(lambda records: [record for record in records if type(record) in classes])
    by_exchange = {exchange: plan.output.classes(exchange) for exchange in exchanges}
    return _in_place(
        lambda records: [
            record for record in records if type(record) in by_exchange[record.exchange]
        ]
    )


def _in_place(select: _Selector) -> _Selector:
    """Select within a list: the stages before name it, and would hold what is left out."""

    def select_in_place(records: list[Record]) -> list[Record]:
        records[:] = select(records)
        return records

    return select_in_place


def _passes_everything(plan: NormalizedPlan) -> bool:
    """Say whether every record the entries produce reaches the client anyway."""
    return all(
        plan.output.passes(entry.exchange.id, type_)
        for entry in plan.entries
        for type_ in entry.source_types
    )


def _everything(records: list[Record]) -> list[Record]:
    return records
