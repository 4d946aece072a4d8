"""Replays that are published without a client, and continue where they stopped.

A job that continues maps the UTC day of its last settled minute again, and publishes what follows
that minute. Ordinals count the records of one local time, and no local time is in two minutes: they
are those of a job that was not interrupted.
"""

import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec

from tardis_machine.bronze.content import Content
from tardis_machine.model.errors import RequestError
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.time import floor_minute, us_text
from tardis_machine.session.contents import recorded_contents
from tardis_machine.session.context import SessionContext
from tardis_machine.session.orders import JobPlan, ReplayOrder
from tardis_machine.session.response import control_errors
from tardis_machine.session.run import client_records
from tardis_machine.session.silent_symbols import SilentSymbols, TellSilent
from tardis_machine.sinks.publisher.client import PublishedStream

_MINUTE_CHARS = len("2024-03-01T00:00")


class ReplayProgress(msgspec.Struct):
    """How far a replay is published for certain."""

    settled_us: int = 0
    """Everything before this minute is in the log, and flushed to disk."""
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
        open_stream: begins a stream to the publisher, of records that are made as it is told.
    """

    def __init__(
        self,
        state: JobState,
        context: SessionContext,
        open_stream: Callable[[Mapping[str, Content]], PublishedStream],
    ) -> None:
        self.state = state
        self._context = context
        self._clock = context.clock
        self._open_stream = open_stream
        self._streams: dict[int, PublishedStream] = {}
        self._finished: set[int] = set()
        self._current: JobPlan | None = None
        self.records = 0
        self.position_us = 0
        self.silent: list[SilentSymbols] = []
        """Symbols that never came, of replays that were run from their start."""

    @property
    def share(self) -> float:
        """Return which share of all replays was read."""
        done = sum(progress.is_done for progress in self.state.progress)
        return min(1.0, (done + self._current_share) / len(self.state.orders))

    @property
    def is_warming_up(self) -> bool:
        """Say whether what is read comes before what is published."""
        return self._current is not None and self.position_us < self._current.publish_from_us

    @property
    def _current_share(self) -> float:
        if self._current is None:
            return 0.0
        start_us, end_us = self._current.range.start_us, self._current.range.end_us
        return max(0.0, min(1.0, (self.position_us - start_us) / (end_us - start_us)))

    async def run(self) -> None:
        """Publish what is left of every replay."""
        for number, order in enumerate(self.state.orders):
            if not self.state.progress[number].is_done:
                await self._replay(number, order)

    async def note_progress(self) -> None:
        """Flush what was published to disk, and bring the state up to it."""
        for number, stream in self._streams.items():
            is_finished = number in self._finished
            await stream.save()
            progress = self.state.progress[number]
            progress.settled_us = max(progress.settled_us, floor_minute(stream.saved_mark))
            progress.is_done = is_finished

    async def _replay(self, number: int, order: ReplayOrder) -> None:
        job = order.plan(self._clock(), self.state.progress[number].settled_us)
        self._current, self.position_us = job, job.range.start_us
        contents = recorded_contents(job.contents, job.plan, self._context.source)
        stream = self._streams[number] = self._open_stream(contents)
        try:
            # Before the place where a job continues, its symbols may have come.
            continues = self.state.progress[number].settled_us > 0
            await self._publish(job, stream, None if continues else self.silent.append)
            self._finished.add(number)
        except Exception as error:
            await stream.publish(encode_lines(control_errors(job.plan, error, self._clock)))
            raise
        finally:
            stream.close()

    async def _publish(
        self, job: JobPlan, stream: PublishedStream, tell: TellSilent | None
    ) -> None:
        """Publish the records from one minute on."""
        # Texts of a minute begin with it, however many digits their seconds have.
        minute = us_text(job.publish_from_us)[:_MINUTE_CHARS]
        async with aclosing(client_records(job.plan, self._context, on_silent=tell)) as chunks:
            async for mapped in chunks:
                if not mapped:
                    continue
                self.position_us = mapped[-1].local_time_us
                records = [record for record in mapped if record.local_timestamp >= minute]  # type: ignore[attr-defined]
                if records:
                    await stream.publish(encode_lines(records), self.position_us, len(records))
                    self.records += len(records)
