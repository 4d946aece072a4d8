"""Which minutes of a range come from which slice: pure arithmetic over time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tardis_machine.model.requests import ReplayRange
from tardis_machine.model.time import MINUTE_US, SECOND_US, floor_minute
from tardis_machine.sources.cache import SliceFile


@dataclass(frozen=True, slots=True)
class Span:
    """Whole minutes that one slice delivers; without a file they are to be fetched."""

    start_us: int
    end_us: int
    file: SliceFile | None = None

    @property
    def minutes(self) -> int:
        """Return how many minutes the span has."""
        return (self.end_us - self.start_us) // MINUTE_US


def whole_minutes(replay_range: ReplayRange) -> Span:
    """Return the whole minutes that a range touches."""
    return Span(floor_minute(replay_range.start_us), -floor_minute(-replay_range.end_us))


def plan_spans(
    span: Span, max_minutes: int, find: Callable[[int], SliceFile | None]
) -> Iterator[Span]:
    """Divide a span, in order, into cached slices and slices to fetch.

    Args:
        span: the minutes that are needed.
        max_minutes: the longest slice that may be fetched.
        find: returns a cached slice that covers a minute.
    """
    start_us = span.start_us
    while start_us < span.end_us:
        file = find(start_us)
        if file:
            end_us = min(file.end_us, span.end_us)
        else:
            limit_us = min(start_us + max_minutes * MINUTE_US, span.end_us)
            end_us = start_us + MINUTE_US
            while end_us < limit_us and find(end_us) is None:
                end_us += MINUTE_US
        yield Span(start_us, end_us, file)
        start_us = end_us


def seconds_until(minute_us: int, delay_minutes: float, now_us: int) -> float:
    """Return how long it takes until a minute counts as recorded, 0 when it does already."""
    wait_us = minute_us + delay_minutes * MINUTE_US - now_us
    return wait_us / SECOND_US if wait_us > 0 else 0.0
