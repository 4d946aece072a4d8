"""`tardis-machine publish --job`, and how far it says to have come."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tardis_machine.model.time import MINUTE_US, parse_us
from tardis_machine.session.jobs import JobState
from tests.soak.publishing_load import DATA_TYPES, EXCHANGES, MINUTES, minute_text
from tests.soak.publishing_process import Command, common_flags

NAME = "soak"
REPLAY = """\
[[replay]]
exchange = "{exchange}"
data_types = {data_types}
from = "{start}"
to = "{end}"
"""
LOOK_SECONDS = 0.01


class Job:
    """Replays of all exchanges, one after another.

    Args:
        recordings: the cache folder.
        folder: for job file, spool and log.
        flags: of the bus, and whatever else differs.
    """

    def __init__(self, recordings: Path, folder: Path, flags: Sequence[str]) -> None:
        self.spool = folder / "spool"
        self.minutes = len(EXCHANGES) * MINUTES
        self._state = self.spool / "jobs" / f"{NAME}.json"
        self._start_us = parse_us(minute_text(0) + ":00.000Z")
        orders = self._write(folder / "job.toml")
        self.command = Command(
            ["publish", str(orders), "--job", NAME, *common_flags(recordings, self.spool), *flags],
            folder / "job.log",
        )

    async def is_beyond(self, minutes: int) -> bool:
        """Wait until more minutes than these are settled; False when it ended before."""
        while self.settled_minutes() <= minutes:
            if not self.command.is_running:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    def settled_minutes(self) -> int:
        """Return how many minutes of all exchanges are delivered or safe on disk."""
        try:
            state = msgspec.json.decode(self._state.read_bytes(), type=JobState)
        except FileNotFoundError:
            return 0
        return sum(
            MINUTES if each.is_done else max(0, each.settled_us - self._start_us) // MINUTE_US
            for each in state.progress
        )

    @staticmethod
    def _write(path: Path) -> Path:
        tables = (
            REPLAY.format(
                exchange=exchange,
                data_types=list(DATA_TYPES),
                start=minute_text(0),
                end=minute_text(MINUTES),
            )
            for exchange in EXCHANGES
        )
        path.write_text("\n".join(tables))
        return path
