"""From when on a replay of a job is mapped, and where it starts over."""

from typing import Any

import pytest

from tardis_machine.model.errors import UnknownNameError
from tardis_machine.model.time import DAY_US, MINUTE_US, parse_us
from tardis_machine.session.orders import JobPlan, ReplayOrder

NOW_US = parse_us("2026-01-01T00:00:00.000Z")
DAY = parse_us("2024-03-01T00:00:00.000Z")
ONE_US = DAY + 60 * MINUTE_US


def plan(*types: str, settled_us: int = 0, **fields: Any) -> JobPlan:
    order = ReplayOrder(
        **{
            "exchange": "bitmex",
            "data_types": types,
            "start": "2024-03-01T01:00",
            "end": "2024-03-01T02:00",
            **fields,
        }
    )
    return order.plan(NOW_US, settled_us)


@pytest.mark.parametrize("types", [("book_change",), ("trade_bar_1m",), ("trade", "quote_1s")])
def test_types_with_state_are_mapped_from_midnight_on(types: tuple[str, ...]) -> None:
    job = plan(*types)
    assert job.range.start_us == DAY
    assert job.publish_from_us == ONE_US
    assert job.warm_up_minutes == 60
    content = job.contents["bitmex"]
    assert content.partial_us == {}
    assert content.covered_us == (ONE_US, ONE_US + 60 * MINUTE_US)


def test_types_without_state_need_no_warm_up() -> None:
    job = plan("trade")
    assert (job.range.start_us, job.publish_from_us, job.warm_up_minutes) == (ONE_US, ONE_US, 0)


def test_without_warm_up_records_are_marked_up_to_midnight() -> None:
    job = plan("trade", "trade_bar_1m", "book_change", end="2024-03-03", warm_up=False)
    assert job.range.start_us == job.publish_from_us == ONE_US
    content = job.contents["bitmex"]
    assert content.state_from_us == ONE_US
    assert set(content.partial_us.values()) == {(ONE_US, DAY + DAY_US)}
    assert "trade" not in content.partial_us
    assert {"book_change", "trade_bar", "quote"} <= content.partial_us.keys()


@pytest.mark.parametrize(
    ("fields", "settled_us", "mapped_from_us"),
    [
        ({}, ONE_US + MINUTE_US, DAY),
        ({"warm_up": False}, ONE_US + MINUTE_US, ONE_US),
        ({}, ONE_US + DAY_US, DAY + DAY_US),
        ({"warm_up": False}, ONE_US + DAY_US, DAY + DAY_US),
        ({"data_types": ("trade",)}, ONE_US + MINUTE_US, ONE_US + MINUTE_US),
    ],
)
def test_continued_job_maps_the_day_of_its_settled_minute_again(
    fields: dict[str, Any], settled_us: int, mapped_from_us: int
) -> None:
    order = {"end": "2024-03-03", "data_types": ("book_change",), **fields}
    job = plan(settled_us=settled_us, **order)
    assert job.range.start_us == mapped_from_us
    assert job.publish_from_us == settled_us
    assert job.contents["bitmex"].covered_us == (ONE_US, DAY + 2 * DAY_US)


def test_every_midnight_begins_a_segment_and_lost_connections_are_told() -> None:
    (entry,) = plan("book_change", end="2024-03-03T12:00").plan.entries
    starts_us = [segment.range.start_us for segment in entry.segments]
    assert starts_us == [DAY, DAY + DAY_US, DAY + 2 * DAY_US]
    assert entry.segments[-1].range.end_us == entry.range.end_us
    assert entry.starts_over_daily
    assert entry.with_disconnects


def test_unknown_data_type_is_refused() -> None:
    with pytest.raises(UnknownNameError):
        plan("trades")
