"""What all live feeds of a process share, and what the connections of one socket do."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp

from tardis_machine.exchanges.feeds import Access, Feed, FeedConnection
from tardis_machine.exchanges.spec import Exchange, Mapper
from tardis_machine.model.time import ms_text
from tardis_machine.sources.context import Timing
from tardis_machine.sources.live.listeners import FeedListener, Loss
from tardis_machine.sources.live.rest.client import RestClient
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.telemetry.live_metrics import LiveMetrics


class RecordHolder(Protocol):
    """A connection with records that were not handed on yet."""

    def flush(self) -> None:
        """Hand them on."""


class Turn:
    """Lets one connection of an exchange at a time hold records back.

    Bursts are handed on together. Without turns those of two sockets could overtake each other, and
    clients would see another order than a recording of the same messages.
    """

    __slots__ = ("holder",)

    def __init__(self) -> None:
        self.holder: RecordHolder | None = None

    def give_to(self, holder: RecordHolder) -> None:
        """Let a connection hold records, after those of another one were handed on."""
        self.flush()
        self.holder = holder

    def flush(self) -> None:
        """Hand on what is held."""
        if self.holder is not None:
            self.holder.flush()


@dataclass(frozen=True)
class LiveContext:
    """Settings, clients, time and metrics."""

    settings: LiveSettings
    session: aiohttp.ClientSession
    rest: RestClient
    proxy: str | None
    metrics: LiveMetrics
    timing: Timing
    loss_times: dict[str, str] = field(default_factory=dict)
    """By exchange: the local time of the latest loss that was told."""
    turns: defaultdict[str, Turn] = field(default_factory=lambda: defaultdict(Turn))
    """By exchange."""

    def loss_time(self, exchange: str, local: str) -> str:
        """Return the time of a loss after a last message; that of an earlier loss is taken.

        A disconnect that repeated the time of another one would be the same event on a bus.
        """
        if local <= self.loss_times.get(exchange, ""):
            local = ms_text(self.timing.clock() // 1000)
        self.loss_times[exchange] = local
        return local

    def access(self) -> Access:
        """Return who asks now."""
        return Access(self.settings.exchange_environment, self.timing.clock())


class SocketState(Protocol):
    """What outlives a connection."""

    exchange: Exchange
    feed: Feed
    plan: FeedConnection
    context: LiveContext
    timeout_seconds: float | None
    data_types: dict[str, None]
    listeners: dict[FeedListener, None]
    message_listeners: tuple[FeedListener, ...]
    failures: int
    joined: dict[str, Mapper]

    def plan_anew(self) -> FeedConnection:
        """Return the plan of now: logins are signed with the time."""

    def fail(self, error: Exception) -> None:
        """Tell listeners about a failure."""

    def lose(self, loss: Loss) -> None:
        """Tell listeners that something starts over."""
