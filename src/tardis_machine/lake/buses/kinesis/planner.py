"""Plan batches of Kinesis by fetching them.

The driver reads on from where the last batch ended. The last record it gets is the end of the next
batch: an exact position. Positions also count the events up to them, so that a range which is
fetched again is known to be complete, and record until when a shard was read, so that records which
expired unread are noticed.
"""

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tardis_machine.buses.kinesis.aggregation import MAGIC
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.lake.buses.client import Loss, Planner, ReadPolicy
from tardis_machine.lake.buses.kinesis.records import events_of, record_rows
from tardis_machine.lake.buses.kinesis.shards import (
    MAX_PAGE_RECORDS,
    ForeignPositionError,
    KinesisApi,
    RecordPage,
    Shard,
)
from tardis_machine.lake.buses.kinesis.spool import Spool, SpoolWriter
from tardis_machine.lake.buses.losses import Losses
from tardis_machine.lake.buses.names import StreamNames
from tardis_machine.lake.buses.positions import (
    Lane,
    Offset,
    Position,
    Range,
    offset_of,
    positions_of,
)

FETCHERS = 8
DAY_MS = 86_400_000
"""Minimum retention of a stream."""
RENEWED_MS = DAY_MS // 4
"""How old the note may get that a silent shard was read."""


class Fetched(NamedTuple):
    """How far one shard was read."""

    position: Position
    is_caught_up: bool = False
    spooled: str | None = None
    """Name of the spooled pages."""


class KinesisPlanner(Planner):
    """Fetches the records of the next batch, all shards concurrently."""

    def __init__(self, settings: KinesisSettings, spool: str | None, policy: ReadPolicy) -> None:
        self._api = KinesisApi(settings)
        self._names = StreamNames.of(settings.destinations)
        self._spool = Spool(spool) if spool else None
        self._losses = Losses(policy)
        self._frozen_at: float | None = None
        self._caught_up: set[Lane] = set()
        self._spooled: set[str] = set()

    def close(self) -> None:
        """Close the connections."""
        self._api.close()

    @property
    def lost(self) -> int:
        """Return how many losses there were; Kinesis does not say of how many events."""
        return self._losses.events

    def begin(self) -> Offset:
        """Return the start of every shard that follows no other one."""
        return offset_of(_new_lanes(self._shards(), {}))

    def freeze(self) -> None:
        """Keep the time as the goal."""
        self._frozen_at = time.monotonic()

    def newest(self) -> None:
        """Return nothing: Kinesis does not report it."""

    def latest(self, start: Offset, max_rows: int | None) -> Offset:
        """Fetch the next batch; shards that came out of finished ones only get their start."""
        shards = self._shards()
        known = self._still_there(positions_of(start), shards)
        lanes = [lane for lane, position in known.items() if not position["is_closed"]]
        share = None if max_rows is None else max(1, max_rows // max(1, len(lanes)))
        goal = time.monotonic() if self._frozen_at is None else self._frozen_at
        # A closed shard is read to its end, where its successors begin.
        goals = {lane: math.inf if shards[lane].is_closed else goal for lane in lanes}
        with ThreadPoolExecutor(FETCHERS) as pool:
            found = list(
                pool.map(lambda lane: self._fetch(lane, known[lane], share, goals[lane]), lanes)
            )
        self._spooled = {each.spooled for each in found if each.spooled}
        if self._frozen_at is not None:
            self._caught_up |= {
                lane for lane, each in zip(lanes, found, strict=True) if each.is_caught_up
            }
        ends = {lane: each.position for lane, each in zip(lanes, found, strict=True)}
        return offset_of(known | ends | _new_lanes(shards, known))

    def ranges(self, start: Offset, end: Offset) -> list[Range]:
        """Return one range per shard that has new events."""
        known, found = positions_of(start), []
        for lane, last in positions_of(end).items():
            rows = last["rows"] - known[lane]["rows"] if lane in known else 0
            if rows:
                found.append(Range(lane, known[lane], last, rows))
        return found

    def commit(self, end: Offset) -> None:
        """Remove the pages of batches that are written."""
        if self._spool:
            self._spool.keep_only(self._spooled)

    def _shards(self) -> dict[Lane, Shard]:
        return {
            Lane(stream, shard.name): shard
            for stream in self._api.streams(self._names)
            for shard in self._api.shards(stream)
        }

    def _still_there(
        self, known: Mapping[Lane, Position], shards: Mapping[Lane, Shard]
    ) -> dict[Lane, Position]:
        """Return the positions of shards that exist; one that goes unread takes events along."""
        for lane in known.keys() - shards.keys():
            if not known[lane]["is_closed"]:
                self._losses.report(lane, known[lane], Loss(1))
        return {lane: position for lane, position in known.items() if lane in shards}

    def _fetch(self, lane: Lane, start: Position, share: int | None, goal: float) -> Fetched:
        if lane in self._caught_up:
            return Fetched(start)
        self._check_age(lane, start)
        fetch = ShardFetch(self._api, self._spool, lane, share, goal)
        try:
            return fetch.run(start)
        except ForeignPositionError:
            self._losses.report(lane, start, Loss(1, is_new_lane=True))
            return fetch.run({**start, "sequence": ""})

    def _check_age(self, lane: Lane, start: Position) -> None:
        age_ms = _now_ms() - start["read_to_ms"]
        if start["sequence"] and age_ms > DAY_MS and age_ms > self._api.retention_ms(lane.stream):
            self._losses.report(lane, start, Loss(1))


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


def _new_lanes(
    shards: Mapping[Lane, Shard], known: Mapping[Lane, Position]
) -> dict[Lane, Position]:
    """Return the start of shards whose parents are read to their ends, or long gone."""
    finished = {lane for lane, position in known.items() if position["is_closed"]}
    waited_for = shards.keys() - finished
    return {
        lane: {"sequence": "", "rows": 0, "read_to_ms": _now_ms(), "is_closed": False}
        for lane, shard in shards.items()
        if lane not in known
        and not any(Lane(lane.stream, parent) in waited_for for parent in shard.parents)
    }


def _read_to_ms(page: RecordPage, records: Sequence[dict[str, Any]], *, is_cut: bool) -> int:
    """Return the time up to which a shard is read, as this machine's clock shows it."""
    if is_cut and records:
        return int(records[-1]["ApproximateArrivalTimestamp"].timestamp() * 1000)
    return _now_ms() - round((time.monotonic() - page.read_to) * 1000)


def _worth_noting(start: Position, end: Position) -> Position:
    """Return the end, or the start while nothing but time has passed."""
    is_old = end["read_to_ms"] - start["read_to_ms"] > RENEWED_MS
    is_same = end["sequence"] == start["sequence"] and end["is_closed"] == start["is_closed"]
    return start if is_same and not is_old else end


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
