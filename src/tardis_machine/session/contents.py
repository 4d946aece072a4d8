"""Which records of a replay may lack what came before it began.

A mapped record is complete when its mapper has no state, or has had it since a midnight (UTC), when
recorders start over. A computed record is complete on a day at whose beginning its state began, if
every lost connection resets it.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.content import END_OF_TIME_US, FIRST_VERSION, Content
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import version_at
from tardis_machine.model.time import DAY_US, floor_minute
from tardis_machine.session.plan import EntryPlan, NormalizedPlan
from tardis_machine.sources.archive import ArchiveSource


def plan_contents(plan: NormalizedPlan, now_us: int) -> dict[str, Content]:
    """Return how the records of a plan will be made, by exchange."""
    contents: dict[str, Content] = {}
    for entry in plan.entries:
        made = _entry_content(entry, now_us)
        known = contents.get(entry.exchange.id)
        contents[entry.exchange.id] = made if known is None else _joined(known, made)
    return contents


def recorded_contents(
    contents: Mapping[str, Content], plan: NormalizedPlan, source: ArchiveSource
) -> dict[str, Content]:
    """Name the recorders of what a plan reads from own recordings."""
    recorders = {
        entry.exchange.id: name
        for entry in plan.entries
        if (name := source.recorder_of(entry.exchange.id, entry.range))
    }
    return {
        exchange: replace(content, recorder=recorders.get(exchange, ""))
        for exchange, content in contents.items()
    }


def holds_state(entry: EntryPlan, now_us: int) -> bool:
    """Say whether a record of an entry may depend on what came before it."""
    return bool(entry.computed) or not all(
        _is_stateless(entry, name, now_us) for name in entry.source_types
    )


def live_contents() -> dict[str, Content]:
    """Return how the records of live feeds are made, by exchange; they lack nothing."""
    return {
        exchange.id: Content(mapper_version=exchange.mapper_version)
        for exchange in REGISTRY.values()
        if exchange.mapper_version != FIRST_VERSION
    }


def _entry_content(entry: EntryPlan, now_us: int) -> Content:
    start_us = floor_minute(entry.range.start_us)
    midnight_us = start_us + -start_us % DAY_US
    partial: dict[PayloadCase, tuple[int, int]] = {}
    if start_us < midnight_us:
        partial = {
            PayloadCase(name): (start_us, midnight_us)
            for name in entry.source_types
            if not _is_stateless(entry, name, now_us)
        }
    from_us, until_us = _partial_computed(entry, midnight_us)
    if entry.computed and from_us < until_us:
        partial |= {case: (from_us, until_us) for case in PayloadCase if case.is_computed}
    return Content(
        mapper_version=entry.exchange.mapper_version,
        covered_us=(entry.range.start_us, entry.range.end_us),
        state_from_us=start_us,
        partial_us=partial,
    )


def _partial_computed(entry: EntryPlan, midnight_us: int) -> tuple[int, int]:
    """Return from when until when computed records are not those of a whole day."""
    start_us = floor_minute(entry.range.start_us)
    if entry.starts_over_daily and entry.with_disconnects:
        return start_us, midnight_us
    is_whole_day = start_us == midnight_us and entry.with_disconnects
    return (start_us + DAY_US if is_whole_day else start_us), END_OF_TIME_US


def _is_stateless(entry: EntryPlan, data_type: str, now_us: int) -> bool:
    return all(
        version_at(entry.exchange, data_type, part.range.start_us, now_us).mapper.is_stateless
        for part in entry.segments
    )


def _joined(one: Content, other: Content) -> Content:
    """Return what holds for the records of both; nobody can tell them apart."""
    assert one.covered_us
    assert other.covered_us
    bounds = zip(one.covered_us, other.covered_us, strict=True)
    (start_us, other_start_us), (end_us, other_end_us) = bounds
    spans = dict(one.partial_us)
    for case, span in other.partial_us.items():
        known = spans.get(case, span)
        spans[case] = min(known[0], span[0]), max(known[1], span[1])
    return Content(
        mapper_version=one.mapper_version,
        covered_us=(min(start_us, other_start_us), max(end_us, other_end_us)),
        state_from_us=max(one.state_from_us, other.state_from_us),
        partial_us=spans,
    )
