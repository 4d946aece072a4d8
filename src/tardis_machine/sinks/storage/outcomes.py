"""What can become of an accepted event, as positions count it."""

from enum import IntEnum


class Settled(IntEnum):
    """How an event left the log; part of the format of positions, so only ever added to."""

    WAITING = 0
    DELIVERED = 1
    FILTERED = 2
    """The bus does not take its payload case."""
    DEAD = 3
    """It became a dead letter."""
    QUARANTINED = 4
    """Its bytes cannot be read."""
    PARKED = 5
    """Its destination is in trouble: it waits in a log of its own."""
    OVERFLOW = 7
    """Dropped: the log of the bus was at its bound."""
    UNENCODABLE = 8
    """Dropped: it does not fit into an envelope."""
    UNREADABLE = 9
    """Dropped: its line is not a record."""
    DEAD_LETTER_DROPPED = 10
    """Dropped: it can never be delivered, and dead letters are not kept."""
    DEAD_LETTER_FAILED = 11
    """Dropped: its dead letter could not be written."""
    DISCARDED = 12
    """Given up by command."""
    NOT_WRITTEN = 13
    """Dropped before it was in the log: the disk was full. Counted by the writer."""


DROPPED = (
    Settled.OVERFLOW,
    Settled.UNENCODABLE,
    Settled.UNREADABLE,
    Settled.DEAD_LETTER_DROPPED,
    Settled.DEAD_LETTER_FAILED,
    Settled.DISCARDED,
    Settled.NOT_WRITTEN,
)
"""The ways in which an accepted event is lost."""
