"""Whether a writer waits: for a bus whose backlog is at its bound, or for a full disk.

A bus that is at its bound loses its oldest events, and no others. Replays wait for it first, once
per outage; jobs wait without end.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.storage.directory import LogDirectory, LogReader
from tardis_machine.sinks.storage.positions import BEGINNING, Position, PositionFile
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

LOOK_AGAIN_SECONDS = 0.02
DISK_SECONDS = 0.5
FULL_SHARE = 0.95
"""Part of the bound at which a writer waits; beyond the bound events are given up."""


OnWaited: TypeAlias = Callable[[str, float], None]


def ignore(_bus: str, _seconds: float) -> None:
    """Count nothing."""


class Room:
    """The room that the buses leave to one writer.

    Args:
        directory: the log.
        readers: the buses and their bounds in bytes.
        settings: how long to wait.
        on_waited: called with a bus at its bound and for how long a writer waited for it.
    """

    def __init__(
        self,
        directory: LogDirectory,
        readers: Mapping[LogReader, int],
        settings: EventBusSettings,
        on_waited: OnWaited = ignore,
    ) -> None:
        self._on_waited = on_waited
        self._directory = directory
        self._bounds = dict(readers)
        self._budget_seconds = settings.replay_max_block_ms / 1000
        self._files: dict[LogReader, PositionFile] = {}
        self._written: PositionFile | None = None
        self._free_to = 0
        """Where the log may end before a bus is near its bound, by the positions read last."""
        self._has_given_up = False
        self._is_disk_full = False

    def has_room(self, end: int) -> bool:
        """Say whether no bus is near its bound when the log ends here.

        Positions only rise, so they are read again only where the last ones leave no room.
        """
        if end < self._free_to:
            return True
        self._free_to = self._read_free_to()
        is_free = end < self._free_to
        if is_free:
            self._has_given_up = False
        return is_free

    async def wait(self, *, waits: bool) -> None:
        """Wait for room, at most as long as the settings allow; without end for a job."""
        budget = math.inf if waits else self._budget_seconds
        if self._has_given_up and not waits:
            return
        started = time.monotonic()
        full = self._full_buses()
        try:
            while time.monotonic() < started + budget:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                if self.has_room(self._end().offset):
                    return
            self._has_given_up = True
        finally:
            for bus in full:
                self._on_waited(bus, time.monotonic() - started)

    def _full_buses(self) -> list[str]:
        """Return the buses near their bounds."""
        end = self._end().offset
        return [reader.bus for reader in self._bounds if end >= self._free_to_of(reader)]

    def _read_free_to(self) -> int:
        return min(self._free_to_of(reader) for reader in self._bounds)

    def _free_to_of(self, reader: LogReader) -> int:
        return self._position(reader).offset + math.ceil(self._bounds[reader] * FULL_SHARE)

    async def wait_for_disk(self, error: OSError, *, waits: bool) -> bool:
        """Say whether to try again after a write failed; waits before it says so."""
        was_full = self._is_disk_full
        self.report_disk(error)
        if was_full and not waits:
            return False
        await asyncio.sleep(DISK_SECONDS if waits else self._budget_seconds)
        return True

    def report_disk(self, error: OSError) -> None:
        """Say that a chunk could not be written, once until one can be again."""
        if not self._is_disk_full:
            self._is_disk_full = True
            log.error(
                "log of published records cannot be written",
                directory=str(self._directory.path),
                error=error.strerror,
            )

    def disk_is_well(self) -> None:
        """Note that a chunk could be written."""
        if self._is_disk_full:
            self._is_disk_full = False
            log.warning("log of published records can be written again")

    async def wait_until_settled(self) -> None:
        """Wait until every bus has settled everything in the log."""
        while not all(  # noqa: ASYNC110 - another process settles
            self._is_settled(reader) for reader in self._bounds
        ):
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        if self._written is not None:
            self._written.close()
            self._written = None

    def _is_settled(self, reader: LogReader) -> bool:
        return self._position(reader).offset >= self._end().offset

    def _end(self) -> Position:
        if self._written is None:
            self._written = PositionFile(self._directory.written_path, is_writable=False)
        return self._written.load() or BEGINNING

    def _position(self, reader: LogReader) -> Position:
        """Return how far a bus is; nowhere until its publisher has begun."""
        file = self._files.get(reader)
        if file is None:
            try:
                path = self._directory.position_path(reader)
                file = self._files[reader] = PositionFile(path, is_writable=False)
            except (FileNotFoundError, ValueError):
                return BEGINNING
        return file.load() or BEGINNING
