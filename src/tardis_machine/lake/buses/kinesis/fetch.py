"""Fetch the next records of one shard, to find where a batch can end."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from tardis_machine.buses.kinesis.aggregation import MAGIC
from tardis_machine.lake.buses.kinesis.records import events_of, record_rows
from tardis_machine.lake.buses.kinesis.shards import MAX_PAGE_RECORDS, KinesisApi, RecordPage
from tardis_machine.lake.buses.kinesis.spool import Spool, SpoolWriter
from tardis_machine.lake.buses.positions import Lane, Position, Range
from tardis_machine.model.time import DAY_US

RENEWED_MS = DAY_US // 1000 // 4
"""How old the note may get that a silent shard was read."""


class Fetched(NamedTuple):
    """How far one shard was read."""

    position: Position
    is_caught_up: bool = False
    spooled: str | None = None
    """Name of the spooled pages."""


class ShardFetch:
    """Reads one shard on until there is enough, or no more."""

    def __init__(
        self, api: KinesisApi, spool: Spool | None, lane: Lane, share: int | None, goal: float
    ) -> None:
        self._api = api
        self._spool = spool
        self._lane = lane
        self._share = share
        self._goal = goal
        self._rows = 0
        self._records = 0
        self._writer: SpoolWriter | None = None

    def run(self, start: Position) -> Fetched:
        """Fetch what follows a position."""
        (stream, shard), end, is_caught_up = self._lane, dict(start), False
        for page in self._api.pages(stream, shard, start["sequence"], self._limit):
            records = self._fitting(page.records)
            is_cut = len(records) < len(page.records)
            if records:
                self._keep(records)
                end["sequence"] = records[-1]["SequenceNumber"]
            end["read_to_ms"] = _read_to_ms(page, records, is_cut=is_cut)
            end["is_closed"] = page.is_last and not is_cut
            is_caught_up = not (is_cut or page.is_full) and page.read_to >= self._goal
            if is_caught_up or is_cut or self._is_enough():
                break
        end["rows"] += self._rows
        return Fetched(_worth_noting(start, end), is_caught_up, self._finish(start, end))

    def _limit(self) -> int:
        """Return how many records to request; each may contain many events."""
        if self._share is None:
            return MAX_PAGE_RECORDS
        events_per_record = self._rows / self._records if self._records else 1.0
        return round((self._share - self._rows) / max(1.0, events_per_record))

    def _is_enough(self) -> bool:
        return self._share is not None and self._rows >= self._share

    def _fitting(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the records whose events still fit; at least one."""
        if self._share is None:
            return records
        room = self._share - self._rows
        for place, record in enumerate(records):
            packed = record["Data"].startswith(MAGIC)
            room -= len(events_of(record["Data"])) if packed else 1
            if room < 0 and (place or self._rows):
                return records[:place]
        return records

    def _keep(self, records: Sequence[dict[str, Any]]) -> None:
        rows = record_rows(self._lane, records)
        self._rows += rows.num_rows
        self._records += len(records)
        if self._spool and self._writer is None:
            self._writer = self._spool.writer()
        if self._writer:
            self._writer.write(rows)

    def _finish(self, start: Position, end: Position) -> str | None:
        if self._writer is None:
            return None
        return self._writer.finish(Range(self._lane, start, end, self._rows))


def start_of_shard() -> Position:
    """Return the position before the oldest record of a shard."""
    return {"sequence": "", "rows": 0, "read_to_ms": now_ms(), "is_closed": False}


def _read_to_ms(page: RecordPage, records: Sequence[dict[str, Any]], *, is_cut: bool) -> int:
    """Return the time up to which a shard is read, as this machine's clock shows it."""
    if is_cut and records:
        return int(records[-1]["ApproximateArrivalTimestamp"].timestamp() * 1000)
    return now_ms() - round((time.monotonic() - page.read_to) * 1000)


def _worth_noting(start: Position, end: Position) -> Position:
    """Return the end, or the start while nothing but time has passed."""
    is_old = end["read_to_ms"] - start["read_to_ms"] > RENEWED_MS
    is_same = end["sequence"] == start["sequence"] and end["is_closed"] == start["is_closed"]
    return start if is_same and not is_old else end


def now_ms() -> int:
    """Return the time in milliseconds."""
    return time.time_ns() // 1_000_000
