"""Positions of a reader: lanes, ranges, and offsets in the form of a Spark checkpoint.

A lane is the unit of ordering of a bus: a Redis stream, a partition of a hub, a shard.
A position in a lane means that everything up to it, and itself, has been read. A range holds what
follows its start, up to and including its end; it always means the same events.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

Position: TypeAlias = Any
"""Text, a number, or a dict of them: a JSON value that the bus understands."""

Offset: TypeAlias = dict[str, dict[str, Position]]
"""Positions by stream and partition, as they stand in the checkpoint."""

LOST = "_lost"
"""Name that stands for a stream where a reader reports how many events are gone."""
STREAMS = "_streams"
"""Name that stands for a stream where an offset has the ids of the streams."""
NOT_STREAMS = frozenset({LOST, STREAMS})


class Lane(NamedTuple):
    """A stream and its partition: the unit of ordering."""

    stream: str
    partition: str = "0"


@dataclass(frozen=True)
class Range:
    """Events of one lane, which one task reads."""

    lane: Lane
    start: Position
    end: Position
    rows: int | None
    """Number of events, if nothing is lost; None: unknown before reading."""


def positions_of(offset: Offset) -> dict[Lane, Position]:
    """Return the position of every lane."""
    return {
        Lane(stream, partition): position
        for stream, partitions in offset.items()
        if stream not in NOT_STREAMS
        for partition, position in partitions.items()
    }


def stream_ids(offset: Offset) -> dict[str, str]:
    """Return the ids of the streams that an offset belongs to; older versions noted none."""
    return dict(offset.get(STREAMS, {}))


def changed_streams(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Return the streams that have another id than before."""
    return {name for name, id_ in now.items() if before.get(name, id_) != id_}


def offset_of(positions: Mapping[Lane, Position], ids: Mapping[str, str] | None = None) -> Offset:
    """Return positions and ids of streams as the JSON of a checkpoint, in a fixed order."""
    offset: Offset = {STREAMS: dict(sorted(ids.items()))} if ids else {}
    # Spark compares offsets as text.
    for lane, position in sorted(positions.items()):
        offset.setdefault(lane.stream, {})[lane.partition] = position
    return offset


def with_loss(offset: Offset | None, events: int) -> Offset | None:
    """Return a report of the newest positions and the number of lost events."""
    return offset if not events else {**(offset or {}), LOST: {"events": events}}


def fair_shares(wanted: Mapping[Lane, int], limit: int | None) -> dict[Lane, int]:
    """Divide a limit among lanes: small ones in full, the others get equal parts of the rest."""
    if limit is None or sum(wanted.values()) <= limit:
        return dict(wanted)
    shares, left = {}, limit
    by_size: Iterable[tuple[Lane, int]] = sorted(wanted.items(), key=lambda item: item[1])
    for place, (lane, rows) in enumerate(by_size):
        shares[lane] = min(rows, left // (len(wanted) - place))
        left -= shares[lane]
    return shares
