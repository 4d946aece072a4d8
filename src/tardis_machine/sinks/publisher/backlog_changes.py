"""Backlogs by command: given to the endpoint that a bus has now, or given up."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from tardis_machine.model.errors import RequestError
from tardis_machine.sinks.delivery.feed import Feed
from tardis_machine.sinks.delivery.parking.destination import POSITION
from tardis_machine.sinks.publisher.backlogs import Backlog, ParkedBacklog
from tardis_machine.sinks.publisher.publisher import tidy_log
from tardis_machine.sinks.storage.directory import (
    LOCK,
    FileLock,
    LogDirectory,
    LogReader,
    find_logs,
    write_owner,
)
from tardis_machine.sinks.storage.in_flight import ChunkInFlight
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.reader import Chunk
from tardis_machine.sinks.storage.segments import delete_all
from tardis_machine.sinks.storage.skipped import SkippedRanges


def hand_over(root: Path, backlogs: Sequence[Backlog], reader: LogReader) -> int:
    """Let a bus at another endpoint have stranded backlogs; return how many events they hold.

    Whoever publishes to that endpoint sends them, from the position that was reached.

    Raises:
        RequestError: a backlog is in use.
    """
    for backlog in backlogs:
        with _locked(root, backlog) as directory:
            _hand_over(directory, backlog.reader, reader)
    return sum(backlog.events for backlog in backlogs)


def discard(root: Path, backlogs: Sequence[Backlog]) -> int:
    """Give whole backlogs up, parked events included; return how many events that were.

    Raises:
        RequestError: a backlog is in use.
    """
    events = 0
    for backlog in backlogs:
        with _locked(root, backlog) as directory:
            position = directory.position_path(backlog.reader)
            skipped = SkippedRanges(directory.skipped_path(backlog.reader))
            events += _discard(root, directory.path, directory.log_id, position, skipped)
            for parked in backlog.parked:
                events += _discard_parked(root, parked)
        tidy_log(directory)
    return events


def discard_parked(root: Path, backlogs: Sequence[Backlog], destination: str) -> int:
    """Give up what waits for one destination; return how many events that were.

    Raises:
        RequestError: a backlog is in use.
    """
    events = 0
    for backlog in backlogs:
        with _locked(root, backlog) as directory:
            for parked in backlog.parked:
                if parked.destination == destination:
                    events += _discard_parked(root, parked)
        tidy_log(directory)
    return events


def _hand_over(directory: LogDirectory, old: LogReader, new: LogReader) -> None:
    """Rename what belongs to a reader; the owner file last, so that a crash only repeats this."""
    renamed = [
        (directory.position_path(old), directory.position_path(new)),
        (directory.parked_path(old), directory.parked_path(new)),
        (directory.skipped_path(old), directory.skipped_path(new)),
    ]
    for source, destination in renamed:
        if source.exists():
            source.rename(destination)
    owner = directory.owner
    readers = tuple(new if each == old else each for each in owner.readers)
    write_owner(directory.path, msgspec.structs.replace(owner, readers=readers))


def _discard_parked(root: Path, parked: ParkedBacklog) -> int:
    path = Path(parked.directory)
    events = _discard(root, path, path.name, path / POSITION)
    # Its position stays: it has the counts.
    delete_all(path)
    return events


def _discard(
    root: Path, path: Path, log_id: str, position: Path, skipped: SkippedRanges | None = None
) -> int:
    """Settle everything that waits in a log, a chunk at a time."""

    def settle(_: Chunk, place: ChunkInFlight) -> None:
        place.settle_rest(Settled.DISCARDED)

    feed = Feed(path, log_id, position, lambda _, __: [], root, skipped)
    before = feed.position.count(Settled.DISCARDED)
    try:
        while feed.skip_chunk(settle):
            feed.advance()
        return feed.position.count(Settled.DISCARDED) - before
    finally:
        feed.close()


@contextmanager
def _locked(root: Path, backlog: Backlog) -> Iterator[LogDirectory]:
    """Keep writers and readers away from a log while the body changes it."""
    with ExitStack() as locks:
        directory = next((each for each in find_logs(root) if each.log_id == backlog.log), None)
        if directory is None:
            raise RequestError(f"The log {backlog.log} is gone: it was read to its end meanwhile.")
        try:
            writer = FileLock(directory.path / LOCK)
            locks.callback(writer.release)
        except BlockingIOError:
            raise RequestError(_in_use(backlog)) from None
        reader = directory.lock_reader(backlog.reader)
        if reader is None:
            raise RequestError(_in_use(backlog))
        locks.callback(reader.release)
        yield directory


def _in_use(backlog: Backlog) -> str:
    return (
        f"The log {backlog.log} of {backlog.bus} at {backlog.endpoint} is in use by a running "
        "process. Stop the server or job that publishes it, then run this again."
    )
