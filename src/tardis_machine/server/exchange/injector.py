"""Makes faults happen: by chance, by the clock, or at once on request; the same for a seed."""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from tardis_machine.server.exchange.clients import Clients
from tardis_machine.server.exchange.connection import Connection
from tardis_machine.server.exchange.faults import ARMED_KINDS, FaultKind, FaultRule
from tardis_machine.server.exchange.player import MarketClock

MAX_LOGGED = 1000
CLOSE_CODES = (1000, 1001, 1006, 1008, 1011, 1012, 1013)
CUT = 1006
"""The code of a connection that ended without a close frame."""

_RETRY_AFTER_SECONDS = 1
_REFUSED_STATUS = 503
_LEAST_SHARE, _MOST_SHARE = 0.5, 1.5
"""How much a time between two faults may differ from the one that was asked for."""


class Injected(NamedTuple):
    """A fault that happened."""

    seconds: float
    kind: str
    exchange: str
    connection: int | None
    messages: int | None
    """How many messages of its subscriptions had been written to the connection."""
    value: int | None


class Armed(NamedTuple):
    """A fault that waits for the next handshake or request."""

    kind: FaultKind
    exchange: str | None
    value: int | None


class Injector:
    """Decides who is hit by what, and remembers it."""

    def __init__(
        self, rules: Sequence[FaultRule], clients: Clients, clock: MarketClock, seed: int
    ) -> None:
        self.rules = rules
        self.counts: Counter[str] = Counter()
        self.latest: deque[Injected] = deque(maxlen=MAX_LOGGED)
        self.armed: list[Armed] = []
        self._clients = clients
        self._clock = clock
        self._seed = seed
        self._requests = self._random("requests")
        self._by_chance = [
            rule for rule in rules if rule.chance is not None and rule.kind not in ARMED_KINDS
        ]

    def _random(self, purpose: str) -> Random:
        return Random(f"{self._seed}/faults/{purpose}")  # noqa: S311

    def watch(self, connection: Connection) -> None:
        """Let faults by chance hit a new connection."""
        if self._by_chance:
            rng = self._random(str(connection.number))
            connection.before_publish = lambda: self._tempt(connection, rng)

    def _tempt(self, connection: Connection, rng: Random) -> None:
        """Draw for every kind, whatever the outcome: later draws must not depend on it."""
        for rule in self._by_chance:
            assert rule.chance is not None
            if rng.random() < rule.chance and can_hit(connection, rule.kind):
                self._hit(connection, rule.kind, rule.value, rng)

    async def run(self) -> None:
        """Make the faults that come by the clock, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for rule in self.rules:
                if rule.every_seconds is not None:
                    tasks.create_task(self._repeat(rule, rule.every_seconds))

    async def _repeat(self, rule: FaultRule, every_seconds: float) -> None:
        rng = self._random(rule.text)
        while True:
            await asyncio.sleep(every_seconds * rng.uniform(_LEAST_SHARE, _MOST_SHARE))
            fit = [entry for entry in self._connections() if can_hit(entry, rule.kind)]
            if rule.kind in ARMED_KINDS:
                self._arm_once(Armed(rule.kind, None, rule.value))
            elif fit:
                self._hit(rng.choice(fit), rule.kind, rule.value, rng)

    def _arm_once(self, fault: Armed) -> None:
        # Without clients nothing takes them: they must not pile up.
        if fault not in self.armed:
            self.armed.append(fault)

    def _connections(self) -> list[Connection]:
        return [session.connection for session in self._clients.sessions.values()]

    def arm(self, kind: FaultKind, exchange: str | None, value: int | None) -> None:
        """Let the next handshake or request fail; each call counts."""
        self.armed.append(Armed(kind, exchange, value))

    def inject(
        self, kind: FaultKind, exchange: str | None, connection: int | None, value: int | None
    ) -> list[int]:
        """Hit every open connection that fits, at once; return their numbers."""
        fit = [
            entry
            for entry in self._connections()
            if can_hit(entry, kind)
            and exchange in (None, entry.exchange)
            and connection in (None, entry.number)
        ]
        for entry in fit:
            self._hit(entry, kind, value, self._requests)
        return [entry.number for entry in fit]

    def refused_status(self, exchange: str) -> int | None:
        """Return the status with which a handshake is refused; None when it is not."""
        value = self._take(FaultKind.REFUSE, exchange)
        return value if value is None or value >= 0 else _REFUSED_STATUS

    def retry_after_seconds(self, exchange: str) -> int | None:
        """Return when a request may come again that is too many; None when it is answered."""
        value = self._take(FaultKind.RATE_LIMIT, exchange)
        return value if value is None or value >= 0 else _RETRY_AFTER_SECONDS

    def _take(self, kind: FaultKind, exchange: str) -> int | None:
        """Return the number of a fault that happens now, -1 for one without; None for no fault."""
        for entry in self.armed:
            if entry.kind is kind and entry.exchange in (None, exchange):
                self.armed.remove(entry)
                return self._note(kind, exchange, entry.value)
        for rule in self.rules:
            if rule.kind is kind and rule.chance and self._requests.random() < rule.chance:
                return self._note(kind, exchange, rule.value)
        return None

    def _hit(self, connection: Connection, kind: FaultKind, value: int | None, rng: Random) -> None:
        if kind is FaultKind.CLOSE:
            value = rng.choice(CLOSE_CODES) if value is None else value
            _end(connection, value)
        elif kind is FaultKind.STALL:
            connection.is_stalled = True
        elif kind is FaultKind.GAP:
            connection.gaps_due += 1
        else:
            connection.send_garbage(rng)
        self._note(kind, connection.exchange, value, connection)

    def _note(
        self,
        kind: FaultKind,
        exchange: str,
        value: int | None,
        connection: Connection | None = None,
    ) -> int:
        seconds = round(self._clock.passed_seconds(), 3)
        number = messages = None
        if connection is not None:
            number, messages = connection.number, connection.sent.total()
        self.counts[kind.value] += 1
        self.latest.append(Injected(seconds, kind.value, exchange, number, messages, value))
        return -1 if value is None else value


def can_hit(connection: Connection, kind: FaultKind) -> bool:
    """Say whether a fault would be noticed on a connection."""
    if connection.ended is not None or connection.is_stalled:
        return False
    return connection.has_numbered_books if kind is FaultKind.GAP else True


def _end(connection: Connection, code: int) -> None:
    if code == CUT:
        connection.abort("cut")
    else:
        connection.close(code, "")


def describe(injector: Injector) -> dict[str, Any]:
    """Return rules, counts, what waits and what happened lately."""
    return {
        "rules": [rule.text for rule in injector.rules],
        "counts": dict(injector.counts),
        "armed": [entry._asdict() for entry in injector.armed],
        "latest": [entry._asdict() for entry in injector.latest],
    }
