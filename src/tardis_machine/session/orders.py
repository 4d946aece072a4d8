"""One replay of a job: what was asked for, and from when on it has to be mapped.

Mappers and computed types have state, so what they make of a minute depends on when they began. A
job begins at 00:00 UTC, starts over at every 00:00 UTC and with every lost connection, and
publishes only what was asked for. So its records are complete, and the same whoever makes them.
"""

from collections.abc import Mapping
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from tardis_machine.bronze.content import Content
from tardis_machine.model.data_types import check_data_types
from tardis_machine.model.requests import NormalizedReplayRequest, ReplayRange
from tardis_machine.model.time import DAY_US, MINUTE_US, floor_minute, us_text
from tardis_machine.session.contents import holds_state, plan_contents
from tardis_machine.session.plan import EntryPlan, NormalizedPlan, Segment, plan_normalized


class JobPlan(msgspec.Struct, frozen=True):
    """A replay of a job as it runs."""

    plan: NormalizedPlan
    """What is mapped: from earlier on than what is published."""
    contents: Mapping[str, Content]
    publish_from_us: int
    """Records before this minute are mapped for the state they leave behind."""

    @property
    def range(self) -> ReplayRange:
        """Return what is mapped."""
        (entry,) = self.plan.entries
        return entry.range

    @property
    def warm_up_minutes(self) -> int:
        """Return how many minutes are read before the first record that is published."""
        return (self.publish_from_us - self.range.start_us) // MINUTE_US


class ReplayOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One replay of a job."""

    exchange: str
    data_types: tuple[str, ...]
    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    symbols: tuple[str, ...] = ()
    warm_up: bool = True
    """Whether mapping begins at 00:00 UTC, where a data type has state."""

    def plan(self, now_us: int, settled_us: int = 0) -> JobPlan:
        """Check the replay, and plan what is left of it.

        Args:
            now_us: the time now.
            settled_us: what is before this minute is published already.
        """
        asked = self._plan(now_us, self.start)
        (entry,) = asked.entries
        publish_from_us = max(settled_us, floor_minute(entry.range.start_us))
        start_us = self._mapping_start_us(entry, publish_from_us, now_us)
        plan = self._plan(now_us, us_text(start_us))
        covered_us = entry.range.start_us, entry.range.end_us
        contents = plan_contents(plan, now_us).items()
        return JobPlan(
            plan,
            {exchange: replace(content, covered_us=covered_us) for exchange, content in contents},
            publish_from_us,
        )

    def _plan(self, now_us: int, start: str) -> NormalizedPlan:
        check_data_types(self.data_types)
        request = NormalizedReplayRequest(
            exchange=self.exchange,
            symbols=list(self.symbols) or None,
            start=start,
            end=self.end,
            data_types=list(self.data_types),
            # They reset computed types, and are published.
            with_disconnect_messages=True,
        )
        plan = plan_normalized([request], now_us)
        return replace(plan, entries=tuple(map(_starting_over_daily, plan.entries)))

    def _mapping_start_us(self, entry: EntryPlan, publish_from_us: int, now_us: int) -> int:
        if not holds_state(entry, now_us):
            return publish_from_us
        day_us = publish_from_us - publish_from_us % DAY_US
        return day_us if self.warm_up else max(day_us, floor_minute(entry.range.start_us))


def _starting_over_daily(entry: EntryPlan) -> EntryPlan:
    """Cut the segments of an entry at every 00:00 UTC: each begins with fresh mappers."""
    days = [
        Segment(ReplayRange(start_us, end_us), segment.filters)
        for segment in entry.segments
        for start_us, end_us in pairwise(_bounds_us(segment.range))
    ]
    return replace(entry, segments=tuple(days), starts_over_daily=True)


def _bounds_us(range_: ReplayRange) -> list[int]:
    midnight_us = range_.start_us - range_.start_us % DAY_US + DAY_US
    return [range_.start_us, *range(midnight_us, range_.end_us, DAY_US), range_.end_us]
