"""How a bus is doing, in words and numbers."""

from enum import StrEnum

import msgspec
from msgspec.structs import replace

OUT_OF_REACH_SECONDS = 60.0
"""How long a bus may be down before a server that requires it is not well."""


class BusState(StrEnum):
    """What a bus is doing."""

    OFF = "off"
    CONNECTING = "connecting"
    UP = "up"
    DEGRADED = "degraded"
    SATURATED = "saturated"
    DRAINING = "draining"
    CLOSED = "closed"


class Totals(msgspec.Struct):
    """Plain counts.

    At every moment `accepted` is `published`, `filtered`, `dead`, `dropped`, `quarantined` and
    what waits in logs or is parked. These come from positions and outlive the process; the others
    count since its start.
    """

    accepted: int = 0
    published: int = 0
    filtered: int = 0
    dead: int = 0
    dropped: int = 0
    quarantined: int = 0
    retries: int = 0
    redelivered: int = 0
    duplicates: int = 0


class Stranded(msgspec.Struct, frozen=True):
    """Events for an endpoint that no bus has now."""

    bus: str
    endpoint: str
    events: int


class BusStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One bus as the publisher describes it to the server."""

    state: BusState
    state_seconds: float
    queued: int
    """Events in logs that are not settled."""
    parked: int
    """Events that wait for their destinations."""
    oldest_seconds: float
    totals: Totals
    last_ack_age_ms: int | None = None
    last_error: str | None = None

    @property
    def is_out_of_reach(self) -> bool:
        """Say whether the bus has been neither reached nor usable for long."""
        is_down = self.state in (BusState.CONNECTING, BusState.DEGRADED)
        return is_down and self.state_seconds > OUT_OF_REACH_SECONDS


CONNECTING = BusStatus(
    state=BusState.CONNECTING,
    state_seconds=0.0,
    queued=0,
    parked=0,
    oldest_seconds=0.0,
    totals=Totals(),
)
"""A bus of which nothing is known yet."""


class Status(msgspec.Struct, frozen=True):
    """How publishing is doing."""

    buses: dict[str, BusStatus]
    metrics: bytes
    """In the Prometheus text format."""
    stranded: tuple[Stranded, ...] = ()
    written_at: float = 0.0
    """In seconds since 1970."""


def outdated(last: Status, seconds: float) -> Status:
    """Return what is known when the publisher has said nothing for so long: its logs are there."""
    silence = f"no status from the publisher process for {seconds:.0f} s"
    buses = {
        name: replace(bus, state=BusState.CONNECTING, state_seconds=seconds, last_error=silence)
        for name, bus in last.buses.items()
    }
    return replace(last, buses=buses)


def with_problem(status: Status, problem: str | None) -> Status:
    """Return a status whose buses say what is wrong with their publisher, if anything is."""
    if problem is None:
        return status
    buses = {name: replace(bus, last_error=problem) for name, bus in status.buses.items()}
    return replace(status, buses=buses)
