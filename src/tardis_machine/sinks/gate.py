"""Whether a producer waits for room in one bus, and how long."""

import asyncio
import math
import time

from tardis_machine.bronze.series import Origin
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.bus import Bus
from tardis_machine.sinks.tickets import Ticket

LOOK_AGAIN_SECONDS = 0.1
"""How often room is looked for that no acknowledgement announces, such as by age."""


class Gate:
    """Lets events into the outbox of one bus.

    Waiting is bounded per outage: once a wait was in vain nobody waits, until something is
    delivered again.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        delivery = bus.delivery
        self._budgets = {
            Origin.REALTIME: delivery.max_block_ms / 1000,
            Origin.REPLAY: delivery.replay_max_block_ms / 1000,
            Origin.ARCHIVE: delivery.replay_max_block_ms / 1000,
        }
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._is_wanted = False
        self._has_given_up = False
        bus.outbox.on_room = self.announce_room

    def announce_room(self) -> None:
        """Wake who waits; called from the thread of the bus after every delivery."""
        if self._is_wanted or self._has_given_up:
            self._loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        self._has_given_up = False
        self._room.set()

    def offer(self, events: list[Event], ticket: Ticket, *, waits: bool) -> list[Event]:
        """Put events into the outbox; return those for which there is no room."""
        taken = self.bus.outbox.offer(events, ticket, may_spill=not waits)
        return events[taken:]

    async def push(
        self, events: list[Event], ticket: Ticket, origin: Origin, *, waits: bool
    ) -> None:
        """Wait for room for events that were turned away; after that, something is lost."""
        started = time.monotonic()
        budget = math.inf if waits else self._budgets[origin]
        left = events
        while left and time.monotonic() - started < budget:
            if self._has_given_up and not waits:
                break
            await self._wait(min(LOOK_AGAIN_SECONDS, started + budget - time.monotonic()))
            left = self.offer(left, ticket, waits=waits)
        self.bus.meter.blocked(origin, time.monotonic() - started)
        if left:
            self._has_given_up = True
            self.bus.outbox.force(left, ticket)

    async def _wait(self, seconds: float) -> None:
        self._is_wanted = True
        self._room.clear()
        try:
            await asyncio.wait_for(self._room.wait(), seconds)
        except TimeoutError:
            return
        finally:
            self._is_wanted = False
