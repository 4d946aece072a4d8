"""What Silver must hold of a record, told by the record alone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import UNSET

from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.bronze import HEADER_COLUMNS
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.time import parse_us

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = {
    "event_ts": "timestamp",
    "local_ts": "local_timestamp",
    "funding_ts": "funding_timestamp",
    "expiration_ts": "expiration_date",
    "open_ts": "open_timestamp",
    "close_ts": "close_timestamp",
}
_HEADER_ONLY = {column.name for column in HEADER_COLUMNS} | {
    *("date", "payload_case", "mapper_version")
}
# How many entries a list had is kept for the way back; the levels themselves are compared.
_NOT_COMPARED = {"bid_entries", "ask_entries"}


def payload_of(record: NormalizedRecord, table: Table) -> dict[str, Any]:
    """Return the columns that the payload of a record fills."""
    names = [name for name in table.column_names if name not in _HEADER_ONLY | _NOT_COMPARED]
    return {name: _value(record, name) for name in names}


def _value(record: Any, column: str) -> Any:
    side, _, part = column.partition("_")
    if side in ("bid", "ask") and hasattr(record, "bids"):
        levels = present(getattr(record, f"{side}s"), part.rstrip("s"))
        return levels if part.endswith("s") else next(iter(levels), None)
    if column in TIMES:
        return moment(getattr(record, TIMES[column], UNSET))
    value = getattr(record, column, UNSET)
    return None if value is UNSET else value


def present(levels: Sequence[Any], part: str) -> list[float]:
    """Return price or amount of the levels that exist."""
    return [getattr(level, part) for level in levels if level.price is not UNSET]


def moment(text: Any) -> datetime | None:
    """Return a time of a record as the tables give it."""
    return None if text is UNSET else EPOCH + timedelta(microseconds=parse_us(text))
