"""A client that asks for one minute after another, whatever happens to the server."""

import asyncio
import json
import os
import secrets
from pathlib import Path

import aiohttp

from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.soak.publishing_process import Server

EVENTS = int(os.environ.get("TM_SOAK_EVENTS", "500000"))
EXCHANGES = ("bitmex", "deribit", "coinbase", "binance-futures")
DATA_TYPES = ("trade", "book_change", "book_snapshot_5_100ms", "quote_1s")
MESSAGES_PER_SECOND = 50
EVENTS_PER_MINUTE = 12_000
"""At least so many come from one simulated minute of all exchanges."""
MINUTES = -(-EVENTS // EVENTS_PER_MINUTE)
LOOK_SECONDS = 0.05


def make_seed() -> int:
    """Return what the moments of a test follow from; `TM_SOAK_SEED` repeats an earlier one."""
    return int(os.environ.get("TM_SOAK_SEED", secrets.randbelow(1_000_000)))


def record_minutes(folder: Path, minutes: int = MINUTES) -> None:
    """Write the recordings that replays read."""
    simulate(
        SimulatorSettings(
            out=folder, minutes=minutes, exchanges=EXCHANGES, rate=MESSAGES_PER_SECOND, seed=11
        )
    )


def minute_text(number: int) -> str:
    """Return the time of a minute since the first one."""
    return f"2024-03-01T{number // 60:02d}:{number % 60:02d}"


def replay_options(first: int, end: int, *exchanges: str) -> str:
    """Return the request for some minutes of some exchanges."""
    common = {"from": minute_text(first), "to": minute_text(end), "dataTypes": DATA_TYPES}
    return json.dumps([{"exchange": exchange, **common} for exchange in exchanges])


async def replay_all(server: Server) -> bytes:
    """Return all minutes of one exchange after another."""
    bodies = []
    for exchange in EXCHANGES:
        async with server.replay(replay_options(0, MINUTES, exchange)) as response:
            response.raise_for_status()
            bodies.append(await response.read())
    return b"".join(bodies)


class Load:
    """Replays every minute in turn."""

    def __init__(self, server: Server, minutes: int = MINUTES) -> None:
        self._server = server
        self._bodies: list[bytes] = [b""] * minutes
        self._lines = 0
        self._is_done = False
        self._has_grown = asyncio.Event()

    @property
    def answered(self) -> bytes:
        """Return all responses, one after another."""
        return b"".join(self._bodies)

    async def run(self) -> None:
        """Ask for every minute once: nothing may go wrong."""
        for minute in range(len(self._bodies)):
            self._bodies[minute] = await self._ask(minute)
        self._grow(0, is_done=True)

    async def reach(self, lines: float) -> None:
        """Wait until so many lines were received, repeated ones included, or nothing is left."""
        while self._lines < lines and not self._is_done:
            self._has_grown.clear()
            await self._has_grown.wait()

    def _grow(self, lines: int, *, is_done: bool = False) -> None:
        self._lines += lines
        self._is_done = is_done
        self._has_grown.set()

    async def _ask(self, minute: int) -> bytes:
        pieces: list[bytes] = []
        async with self._server.replay(replay_options(minute, minute + 1, *EXCHANGES)) as response:
            response.raise_for_status()
            async for piece in response.content.iter_any():
                pieces.append(piece)
                self._grow(piece.count(b"\n"))
        return b"".join(pieces)


class CarefulLoad(Load):
    """Asks again for what nobody knows to be accepted when the server dies.

    A server that dies takes with it what its publisher had not accepted. What it had accepted is
    told by the count of the publisher, as the server last showed it: responses are handed over in
    their order.
    """

    def __init__(self, server: Server, minutes: int = MINUTES) -> None:
        super().__init__(server, minutes)
        self._next = 0
        self._accepted = 0
        self._sent: list[tuple[int, int]] = []
        """Minutes that this life of the server has answered, and all its events by then."""
        self._is_up = asyncio.Event()
        self._is_up.set()

    async def run(self) -> None:
        """Ask until everything is accepted."""
        while self._accepted < len(self._bodies):
            await self._is_up.wait()
            try:
                if self._next < len(self._bodies):
                    await self._ask_next()
                else:
                    await asyncio.sleep(LOOK_SECONDS)
                await self._look()
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
                await asyncio.sleep(LOOK_SECONDS)
        self._grow(0, is_done=True)

    def begin_outage(self) -> None:
        """Take note that the server is about to die."""
        self._is_up.clear()

    def end_outage(self) -> None:
        """Take note that the server is back, and knows nothing of its earlier life."""
        self._next = self._accepted
        self._sent.clear()
        self._is_up.set()

    async def _ask_next(self) -> None:
        minute = self._next
        body = await self._ask(minute)
        if not self._is_up.is_set():
            return
        assert self._bodies[minute] in (b"", body), f"minute {minute} was answered differently"
        self._bodies[minute] = body
        before = self._sent[-1][1] if self._sent else 0
        self._sent.append((minute, before + body.count(b"\n")))
        self._next = minute + 1

    async def _look(self) -> None:
        accepted = (await self._server.metrics()).get("events_total", 0)
        for minute, events in self._sent:
            if events <= accepted:
                self._accepted = max(self._accepted, minute + 1)
