"""The clients of all exchanges: those that are connected, and the latest that left."""

import asyncio
from collections import deque
from typing import Any

from tardis_machine.server.exchange.connection import Connection
from tardis_machine.server.exchange.session import Session

MAX_LEFT = 1000
"""Connections that are remembered after their end."""

_TIMER_SECONDS = 0.05


class Clients:
    """Knows every connection with its session, and writes what is queued for them."""

    def __init__(self) -> None:
        self.sessions: dict[int, Session[Any]] = {}
        self.left: deque[Connection] = deque(maxlen=MAX_LEFT)
        self.opened = 0
        self._waiting: list[Connection] = []

    def next_number(self) -> int:
        """Return the number of a new connection; they count from 1."""
        self.opened += 1
        return self.opened

    def enter(self, session: Session[Any]) -> None:
        """Take a connection in."""
        self.sessions[session.connection.number] = session

    def leave(self, session: Session[Any]) -> None:
        """End a connection's subscriptions and remember what it got."""
        session.leave()
        del self.sessions[session.connection.number]
        self.left.append(session.connection)

    def wants_flush(self, connection: Connection) -> None:
        """Note that something is queued for a connection."""
        self._waiting.append(connection)

    def flush(self) -> None:
        """Write what is queued for every connection."""
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.flush()

    async def run_timers(self) -> None:
        """Let sessions send what is due by the clock, until cancelled."""
        while True:
            await asyncio.sleep(_TIMER_SECONDS)
            for session in list(self.sessions.values()):
                session.on_time()
