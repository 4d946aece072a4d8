"""Replays that are published without a client, and continue where they stopped.

Mappers need what came since the day's first snapshot, so a job that continues maps the UTC day of
its last settled minute again from its start, and publishes what follows that minute.
"""

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec

from tardis_machine.model.data_types import check_data_types
from tardis_machine.model.errors import RequestError
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import Record
from tardis_machine.model.requests import NormalizedReplayRequest
from tardis_machine.model.time import DAY_US, floor_minute, us_text
from tardis_machine.session.context import SessionContext
from tardis_machine.session.plan import NormalizedPlan, plan_normalized
from tardis_machine.session.response import control_errors
from tardis_machine.session.run import client_records
from tardis_machine.sinks.publisher_link import PublishedStream


class ReplayOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One replay of a job."""

    exchange: str
    data_types: tuple[str, ...]
    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    symbols: tuple[str, ...] = ()

    def plan(self, now_us: int, start_us: int | None = None) -> NormalizedPlan:
        """Check the replay, and plan it from its start or from a later time."""
        check_data_types(self.data_types)
        request = NormalizedReplayRequest(
            exchange=self.exchange,
            symbols=list(self.symbols) or None,
            start=self.start if start_us is None else us_text(start_us),
            end=self.end,
            data_types=list(self.data_types),
        )
        return plan_normalized([request], now_us)


class ReplayProgress(msgspec.Struct):
    """How far a replay is published for certain."""

    settled_us: int = 0
    """Everything before this minute is delivered or safe on disk."""
    is_done: bool = False


class JobState(msgspec.Struct):
    """What a job must remember to continue."""

    orders: tuple[ReplayOrder, ...]
    progress: list[ReplayProgress]

    @classmethod
    def fresh(cls, orders: Sequence[ReplayOrder]) -> "JobState":
        """Return the state of a job that was not started."""
        return cls(tuple(orders), [ReplayProgress() for _ in orders])


class JobFile:
    """Keeps the state of a job; a crash leaves the old state or the new one.

    Raises:
        RequestError: another process runs the job.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        # Held until the process ends.
        self._lock = path.with_suffix(".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise RequestError(f"Job {path.stem!r} is running in another process.") from error

    def close(self) -> None:
        """Let another process run the job."""
        self._lock.close()

    def load(self, orders: Sequence[ReplayOrder]) -> JobState:
        """Return the state of a job, a fresh one when it is new.

        Raises:
            RequestError: the job is known, but with other replays.
        """
        fresh = JobState.fresh(orders)
        try:
            known = msgspec.json.decode(self._path.read_bytes(), type=JobState)
        except FileNotFoundError:
            return fresh
        except msgspec.DecodeError as error:
            raise RequestError(f"{self._path} is not a valid job state file: {error}.") from error
        if known.orders != fresh.orders:
            raise RequestError(
                f"Job {self._path.stem!r} was started with other replays. Use another --job, or "
                f"delete {self._path}."
            )
        return known

    def save(self, state: JobState) -> None:
        """Replace the state; a power loss leaves the old one or the new one, too."""
        draft = self._path.with_suffix(".draft")
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(state))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


class JobRun:
    """Publishes the replays of a job, one after another.

    Args:
        state: where to begin.
        context: what plans run with.
        open_stream: begins a stream to the publisher.
    """

    def __init__(
        self,
        state: JobState,
        context: SessionContext,
        open_stream: Callable[[], PublishedStream],
    ) -> None:
        self.state = state
        self._context = context
        self._clock = context.clock
        self._open_stream = open_stream
        self._streams: dict[int, PublishedStream] = {}
        self._finished: set[int] = set()
        self._bounds_us = (0, 1)
        self.records = 0
        self.position_us = 0

    @property
    def share(self) -> float:
        """Return which share of all replays was read."""
        start_us, end_us = self._bounds_us
        done = sum(progress.is_done for progress in self.state.progress)
        current = (self.position_us - start_us) / max(1, end_us - start_us)
        return min(1.0, (done + max(0.0, min(1.0, current))) / len(self.state.orders))

    async def run(self) -> None:
        """Publish what is left of every replay, and wait until all of it is settled."""
        for number, order in enumerate(self.state.orders):
            if not self.state.progress[number].is_done:
                await self._replay(number, order)
        for stream in self._streams.values():
            await stream.wait_until_settled()

    def note_progress(self) -> None:
        """Bring the state up to what is settled by now."""
        for number, stream in self._streams.items():
            progress = self.state.progress[number]
            progress.settled_us = max(progress.settled_us, floor_minute(stream.settled_mark))
            progress.is_done = number in self._finished and stream.is_settled

    async def _replay(self, number: int, order: ReplayOrder) -> None:
        settled_us = self.state.progress[number].settled_us
        plan = order.plan(self._clock())
        (entry,) = plan.entries
        self._bounds_us = entry.range.start_us, entry.range.end_us
        if settled_us:
            day_us = settled_us - settled_us % DAY_US
            plan = order.plan(self._clock(), max(day_us, entry.range.start_us))
        stream = self._streams[number] = self._open_stream()
        try:
            await self._publish(plan, stream, us_text(settled_us) if settled_us else "")
            self._finished.add(number)
        except Exception as error:
            await stream.publish(encode_lines(control_errors(plan, error, self._clock)))
            raise
        finally:
            stream.close()

    async def _publish(self, plan: NormalizedPlan, stream: PublishedStream, after: str) -> None:
        """Publish the records from one time on."""
        unseen: list[Record] = []
        async with aclosing(client_records(plan, self._context, unseen.append)) as chunks:
            async for records in chunks:
                await self._send(unseen, stream, after)
                unseen.clear()
                self.position_us = records[-1].local_time_us
                await self._send(records, stream, after)
        await self._send(unseen, stream, after)

    async def _send(self, records: Sequence[Record], stream: PublishedStream, after: str) -> None:
        if after:
            records = [record for record in records if record.local_timestamp >= after]  # type: ignore[attr-defined]
        if records:
            await stream.publish(encode_lines(records), self.position_us)
            self.records += len(records)
