"""Notices connections and channels that say nothing any more."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from tardis_machine.sources.live.connection import Connection
from tardis_machine.sources.live.errors import StaleConnectionError
from tardis_machine.sources.live.receiver import Receiver

SILENT_SECONDS = 20.0
"""No message and no answer to several pings for this long: the connection is dead."""

LOOK_SECONDS = 1.0

STALL_MIN_SECONDS = 30.0
STALL_FACTOR = 10
STALL_MESSAGES = 20
"""A channel is stalled when it was silent for this long, and for so many times as long as ever
before on this connection, having sent at least so many messages: a quiet market is not dead."""


async def watch_interval(receiver: Receiver, seconds: float) -> None:
    """End a connection on which no data came for an interval that a client chose.

    Raises:
        StaleConnectionError: nothing but heartbeats came.
    """
    seen = 0
    while True:
        await asyncio.sleep(seconds)
        if receiver.messages == seen:
            raise StaleConnectionError(f"no data for {seconds:g} s")
        seen = receiver.messages


async def watch_connection(connection: Connection, receiver: Receiver) -> None:
    """Look at a connection every second.

    Raises:
        StaleConnectionError: the exchange is silent, or one of its channels.
    """
    channels = ChannelWatch()
    now = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if connection.silent_seconds > SILENT_SECONDS:
            raise StaleConnectionError(f"no sign of life for {SILENT_SECONDS:g} s")
        stalled = channels.look(channel_counts(receiver), now())
        if stalled is not None:
            raise StaleConnectionError(f"channel {stalled} stalled")


def channel_counts(receiver: Receiver) -> dict[str, int]:
    """Return how many messages each channel brought."""
    counts: dict[str, int] = {}
    for key, channel in receiver.channels.items():
        counts[channel] = counts.get(channel, 0) + receiver.counts[key]
    return counts


@dataclass
class ChannelLife:
    """When a channel spoke, and how long it was silent at most."""

    count: int
    last: float
    longest_gap: float = 0.0


class ChannelWatch:
    """Finds channels that stopped although they never were silent for so long."""

    def __init__(self) -> None:
        self._lives: dict[str, ChannelLife] = {}

    def look(self, counts: Mapping[str, int], now: float) -> str | None:
        """Compare counts with those of the last look; return a channel that is stalled."""
        for channel, count in counts.items():
            life = self._lives.get(channel)
            if life is None:
                self._lives[channel] = ChannelLife(count, now)
            elif count != life.count:
                life.longest_gap = max(life.longest_gap, now - life.last)
                life.count, life.last = count, now
            elif life.count >= STALL_MESSAGES and now - life.last > self._limit(life):
                return channel
        return None

    def _limit(self, life: ChannelLife) -> float:
        return max(STALL_MIN_SECONDS, STALL_FACTOR * life.longest_gap)
