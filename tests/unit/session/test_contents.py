"""Which records of a replay may lack what came before it."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.content import END_OF_TIME_US, Content
from tardis_machine.model.requests import NormalizedReplayRequest
from tardis_machine.model.time import DAY_US, MINUTE_US, parse_us
from tardis_machine.session.contents import plan_contents
from tardis_machine.session.plan import plan_normalized

NOW_US = parse_us("2026-01-01T00:00:00.000Z")
DAY = parse_us("2024-03-01T00:00:00.000Z")
ONE_US = parse_us("2024-03-01T01:00:00.000Z")
COMPUTED = {case for case in PayloadCase if case.is_computed}


def contents(*entries: dict[str, Any], daily: bool = False) -> dict[str, Content]:
    asked = [
        msgspec.convert(
            {
                "exchange": "bitmex",
                "from": "2024-03-01T01:00",
                "to": "2024-03-02T01:00",
                "dataTypes": ["trade", "book_change"],
                **entry,
            },
            NormalizedReplayRequest,
        )
        for entry in entries
    ]
    plan = plan_normalized(asked, NOW_US)
    entries = tuple(replace(entry, starts_over_daily=daily) for entry in plan.entries)
    return plan_contents(replace(plan, entries=entries), NOW_US)


def test_mapped_records_with_state_are_complete_from_midnight_on() -> None:
    content = contents({})["bitmex"]
    assert content.state_from_us == ONE_US
    assert content.covered_us == (ONE_US, ONE_US + DAY_US)
    # Trades of this exchange need no state.
    assert content.partial_us == {PayloadCase.BOOK_CHANGE: (ONE_US, DAY + DAY_US)}


def test_mapped_records_of_a_replay_from_midnight_are_complete() -> None:
    assert contents({"from": "2024-03-01"})["bitmex"].partial_us == {}


def test_mapping_begins_with_a_whole_minute() -> None:
    asked = {"from": "2024-03-01T01:00:30.5Z", "exactRange": True}
    assert contents(asked)["bitmex"].state_from_us == ONE_US


@pytest.mark.parametrize(
    ("asked", "span"),
    [
        ({}, (ONE_US, END_OF_TIME_US)),
        ({"withDisconnectMessages": True}, (ONE_US, END_OF_TIME_US)),
        ({"from": "2024-03-01"}, (DAY, END_OF_TIME_US)),
        # A whole day with all resets is complete; the next one began with the state of this one.
        ({"from": "2024-03-01", "withDisconnectMessages": True}, (DAY + DAY_US, END_OF_TIME_US)),
    ],
)
def test_computed_records_are_complete_on_the_day_they_begin_with(
    asked: dict[str, Any], span: tuple[int, int]
) -> None:
    content = contents({"dataTypes": ["trade_bar_1m", "quote"], **asked})["bitmex"]
    computed = {case: found for case, found in content.partial_us.items() if case in COMPUTED}
    assert computed == dict.fromkeys(COMPUTED, span)


def test_replays_that_start_over_daily_are_complete_from_midnight_on() -> None:
    types = {"dataTypes": ["trade_bar_1m"], "withDisconnectMessages": True}
    content = contents(types, daily=True)["bitmex"]
    assert content.partial_us == dict.fromkeys(COMPUTED, (ONE_US, DAY + DAY_US))
    assert contents({"from": "2024-03-01", **types}, daily=True)["bitmex"].partial_us == {}


def test_entries_of_one_exchange_are_as_incomplete_as_the_worst() -> None:
    later = {"from": "2024-03-01T02:00", "to": "2024-03-03"}
    content = contents({}, later, {"exchange": "deribit", "from": "2024-03-01"})["bitmex"]
    assert content.state_from_us == ONE_US + 60 * MINUTE_US
    assert content.covered_us == (ONE_US, DAY + 2 * DAY_US)
    assert content.partial_us == {PayloadCase.BOOK_CHANGE: (ONE_US, DAY + DAY_US)}
