"""Plan batches of a bus that knows its newest positions."""

from collections.abc import Mapping

from tardis_machine.lake.buses.client import BusClient, Loss, Planner, ReadPolicy, Span
from tardis_machine.lake.buses.losses import Losses
from tardis_machine.lake.buses.positions import (
    Lane,
    Offset,
    Position,
    Range,
    changed_streams,
    fair_shares,
    offset_of,
    positions_of,
    stream_ids,
)


class LanePlanner(Planner):
    """Advances every lane, each by a fair share of the limit."""

    def __init__(self, client: BusClient, policy: ReadPolicy) -> None:
        self._client = client
        self._policy = policy
        self._losses = Losses(policy)
        self._goals: Mapping[Lane, Span] | None = None
        self._spans: Mapping[Lane, Span] | None = None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @property
    def lost(self) -> int:
        """Return how many events were gone."""
        return self._losses.events

    def begin(self) -> Offset:
        """Return the positions before the oldest events."""
        oldest = {lane: span.oldest for lane, span in self._look().items()}
        return offset_of(oldest, self._client.stream_ids())

    def freeze(self) -> None:
        """Keep the newest positions as the goal."""
        self._goals = self._look()

    def newest(self) -> Offset:
        """Return the newest positions, as they were when a batch was last planned."""
        return offset_of({lane: span.newest for lane, span in (self._spans or {}).items()})

    def latest(self, start: Offset, max_rows: int | None) -> Offset:
        """Return the end of the next batch; a new lane only gets its start in it.

        So every range has both ends in the checkpoint, and means the same after a restart.
        """
        spans = self._look()
        known, ids = positions_of(start), dict(self._client.stream_ids())
        new_streams = changed_streams(stream_ids(start), ids)
        starts = {
            lane: self._new_start(lane, position, spans[lane])
            if lane.stream in new_streams
            else self._after_loss(lane, position, spans[lane])
            for lane, position in known.items()
            if lane in spans
        }
        ends = {lane: self._goal(lane, position, spans[lane]) for lane, position in starts.items()}
        wanted = {lane: self._client.distance(starts[lane], end) for lane, end in ends.items()}
        for lane, rows in fair_shares(wanted, max_rows).items():
            if rows == 0:
                ends[lane] = starts[lane]
            elif rows < wanted[lane]:
                ends[lane] = self._client.advance(lane, starts[lane], rows)
        new = {lane: span.oldest for lane, span in self._lanes(spans) if lane not in known}
        return offset_of(known | ends | new, stream_ids(start) | ids)

    def ranges(self, start: Offset, end: Offset) -> list[Range]:
        """Return the ranges of a batch, cut so that tasks have about the same to do."""
        spans = self._look() if self._spans is None else self._spans
        wanted = stream_ids(end)
        gone = changed_streams(wanted, self._client.stream_ids())
        new_streams = changed_streams(stream_ids(start), wanted)
        known, found = positions_of(start), []
        for lane, last in positions_of(end).items():
            first = known.get(lane, last)
            if lane.stream in gone:
                # Planned before a restart; what has taken its place is another stream.
                self._losses.report(lane, last, Loss(1, is_new_lane=True))
                continue
            if lane.stream in new_streams or self._client.is_before(last, first):
                # The lane was recreated, and its events are counted from the beginning.
                first = spans[lane].oldest if lane in spans else last
            found += self._cut(lane, first, last)
        return found

    def commit(self, end: Offset) -> None:
        """Do nothing: the bus retains the events itself."""

    def _look(self) -> Mapping[Lane, Span]:
        self._spans = self._client.spans()
        return self._spans

    def _cut(self, lane: Lane, start: Position, end: Position) -> list[Range]:
        rows = self._client.distance(start, end)
        if rows == 0:
            return []
        whole = Range(lane, start, end, rows)
        parts = round(rows / self._policy.rows_per_task)
        return self._client.cut(whole, parts) if parts > 1 else [whole]

    def _lanes(self, spans: Mapping[Lane, Span]) -> list[tuple[Lane, Span]]:
        lanes = spans if self._goals is None else self._goals
        return [(lane, span) for lane, span in spans.items() if lane in lanes]

    def _goal(self, lane: Lane, start: Position, span: Span) -> Position:
        if self._goals is None:
            return span.newest
        goal = self._goals[lane].newest if lane in self._goals else start
        return start if self._client.is_before(goal, start) else goal

    def _new_start(self, lane: Lane, start: Position, span: Span) -> Position:
        """Return the start of a stream that took the place of another; report the loss."""
        self._losses.report(lane, start, Loss(1, is_new_lane=True))
        return span.oldest

    def _after_loss(self, lane: Lane, start: Position, span: Span) -> Position:
        """Return where reading of a lane can continue; report lost events."""
        loss = self._client.loss(lane, start, span)
        if loss is None:
            return start
        self._losses.report(lane, start, loss)
        is_skipped = loss.is_new_lane or self._client.is_before(start, span.oldest)
        return span.oldest if is_skipped else start
