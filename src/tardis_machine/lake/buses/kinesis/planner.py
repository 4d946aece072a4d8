"""Plan batches of Kinesis by fetching them.

The driver reads on from where the last batch ended. The last record it gets is the end of the next
batch: an exact position. Positions also count the events up to them, so that a range which is
fetched again is known to be complete, and record until when a shard was read, so that records which
expired unread are noticed.
"""

import math
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.lake.buses.client import Loss, Planner, ReadPolicy
from tardis_machine.lake.buses.kinesis.fetch import Fetched, ShardFetch, now_ms, start_of_shard
from tardis_machine.lake.buses.kinesis.shards import ForeignPositionError, KinesisApi, Shard
from tardis_machine.lake.buses.kinesis.spool import Spool
from tardis_machine.lake.buses.losses import Losses
from tardis_machine.lake.buses.names import StreamNames
from tardis_machine.lake.buses.positions import (
    Lane,
    Offset,
    Position,
    Range,
    changed_streams,
    offset_of,
    positions_of,
    stream_ids,
)

FETCHERS = 8
DAY_MS = 86_400_000
"""Minimum retention of a stream."""


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
        self._ids: dict[str, str | None] = {}

    def close(self) -> None:
        """Close the connections."""
        self._api.close()

    @property
    def lost(self) -> int:
        """Return how many losses there were; Kinesis does not say of how many events."""
        return self._losses.events

    def begin(self) -> Offset:
        """Return the start of every shard that follows no other one."""
        shards = self._shards()
        return offset_of(_new_lanes(shards, {}), self._stream_ids(shards))

    def freeze(self) -> None:
        """Keep the time as the goal."""
        self._frozen_at = time.monotonic()

    def newest(self) -> None:
        """Return nothing: Kinesis does not report it."""

    def latest(self, start: Offset, max_rows: int | None) -> Offset:
        """Fetch the next batch; shards that came out of finished ones only get their start."""
        shards = self._shards()
        ids = self._stream_ids(shards)
        known = self._still_there(self._of_same_streams(start, ids), shards)
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
        return offset_of(known | ends | _new_lanes(shards, known), stream_ids(start) | ids)

    def ranges(self, start: Offset, end: Offset) -> list[Range]:
        """Return one range per shard that has new events."""
        new_streams = changed_streams(stream_ids(start), stream_ids(end))
        known, found = positions_of(start), []
        for lane, last in positions_of(end).items():
            if lane.stream in new_streams:
                known[lane] = start_of_shard()
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

    def _stream_ids(self, shards: Iterable[Lane]) -> dict[str, str]:
        """Return the ids of streams; asked for once, because Kinesis tells foreign positions."""
        for stream in {lane.stream for lane in shards} - self._ids.keys():
            self._ids[stream] = self._api.created(stream)
        return {stream: id_ for stream, id_ in self._ids.items() if id_ is not None}

    def _of_same_streams(self, start: Offset, ids: Mapping[str, str]) -> dict[Lane, Position]:
        """Return the positions; those of a stream that was made anew are at its start."""
        new_streams = changed_streams(stream_ids(start), ids)
        known = positions_of(start)
        for lane, position in known.items():
            if lane.stream in new_streams:
                self._losses.report(lane, position, Loss(1, is_new_lane=True))
                known[lane] = start_of_shard()
        return known

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
        age_ms = now_ms() - start["read_to_ms"]
        if start["sequence"] and age_ms > DAY_MS and age_ms > self._api.retention_ms(lane.stream):
            self._losses.report(lane, start, Loss(1))


def _new_lanes(
    shards: Mapping[Lane, Shard], known: Mapping[Lane, Position]
) -> dict[Lane, Position]:
    """Return the start of shards whose parents are read to their ends, or long gone."""
    finished = {lane for lane, position in known.items() if position["is_closed"]}
    waited_for = shards.keys() - finished
    return {
        lane: start_of_shard()
        for lane, shard in shards.items()
        if lane not in known
        and not any(Lane(lane.stream, parent) in waited_for for parent in shard.parents)
    }
