"""Minutes for which Gold is computed again: not those of events that are rejected."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tardis_machine.lake.silver.limits import EventLimits

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def kept(limits: EventLimits, *minutes: datetime, exchange: str = "bitmex") -> list[Any]:
    noon_us = int(NOON.timestamp()) * 1_000_000
    groups = pa.table(
        {
            "exchange": [exchange] * len(minutes),
            "minute": pa.array(minutes, pa.timestamp("us", "UTC")),
            "first_us": [noon_us] * len(minutes),
            "last_us": [noon_us + 59_000_000] * len(minutes),
        }
    )
    found = limits.near_minutes(groups)["minute"].to_pylist()
    return [(minute - NOON) / DAY for minute in found]


def test_minute_of_rejected_events_is_not_computed_again() -> None:
    minutes = (NOON, NOON - DAY, NOON + DAY, NOON - 9 * DAY, NOON + 9 * DAY)
    assert kept(EventLimits(), *minutes) == [0, -1, 1]
    assert kept(EventLimits(max_skew_seconds=0), *minutes) == [0, -1, 1, -9, 9]
    late = EventLimits(late_exchanges=("bitmex",))
    assert kept(late, *minutes) == [0, -1, 1, -9, 9]
    assert kept(late, *minutes, exchange="deribit") == [0, -1, 1]
