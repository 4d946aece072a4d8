"""The server's side of publishing: a copy of what clients get goes to the publisher process."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tardis_machine.bronze.series import Origin
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.frames import Status, StreamContext
from tardis_machine.sinks.publisher_link import Link, PublishedStream
from tardis_machine.sinks.status import CONNECTING
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

GRACE_SECONDS = 2.0
"""How much longer than its drain the publisher is waited for."""


class PublisherClient:
    """Hands streams to the publisher process that listens on a Unix socket.

    Args:
        path: of the socket.
        settings: window and waiting budgets.
        producer_id: who publishes.
        buses: names of the buses that are on.
        close_seconds: how long to wait at the end; by default as long as the publisher may drain.
        required: those of the buses without which the server is not well.
    """

    def __init__(
        self,
        path: Path,
        settings: EventBusSettings,
        producer_id: str,
        buses: Iterable[str],
        close_seconds: float | None = None,
        *,
        required: Collection[str] = (),
    ) -> None:
        drain_seconds = settings.drain_timeout_ms / 1000 + GRACE_SECONDS
        self._close_seconds = drain_seconds if close_seconds is None else close_seconds
        self._unknown = Status(dict.fromkeys(buses, CONNECTING), b"")
        self._required = frozenset(required)
        self._path = path
        self._settings = settings
        self._producer_id = producer_id
        self._links: dict[Origin, Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def status(self) -> Status:
        """Return what the publisher said last; buses it says nothing about are connecting."""
        known = (link.status for link in self._links.values() if link.status)
        return next(known, self._unknown)

    @property
    def has_failed(self) -> bool:
        """Say whether a bus that is required has been out of reach for long."""
        buses = self.status.buses
        return any(buses[name].is_out_of_reach for name in self._required & buses.keys())

    def stream(
        self, origin: Origin, meta: Mapping[str, str], *, waits: bool = False
    ) -> PublishedStream:
        """Begin a stream; `waits`: never lose anything, however long that takes."""
        context = StreamContext(
            producer_id=self._producer_id, origin=origin, meta=dict(meta), waits=waits
        )
        return self._link(origin).stream(context)

    async def close(self, seconds: float) -> bool:
        """Wait until everything is settled, at most this long; return whether it is."""
        for link in self._links.values():
            link.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for link in self._links.values():
                    await link.wait_until_settled()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return all(link.is_settled for link in self._links.values())

    async def __aenter__(self) -> Self:
        # Replays are what every server does; real-time streams get a connection of their own, so
        # that they never wait behind one.
        self._link(Origin.REPLAY)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not await self.close(self._close_seconds):
            log.error("server stopped before the publisher acknowledged all records")

    def _link(self, origin: Origin) -> Link:
        link = self._links.get(origin)
        if link is None:
            link = self._links[origin] = Link(self._path, origin, self._settings)
            self._tasks.add(asyncio.create_task(link.run(), name=f"publisher-{origin.value}"))
        return link
