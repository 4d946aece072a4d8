"""Everything that publishing has on disk, in one answer. It only reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tardis_machine.model.time import Clock
from tardis_machine.sinks.dead_letters.files import letter_files
from tardis_machine.sinks.publisher.backlogs import Backlog, BacklogState, find_backlogs
from tardis_machine.sinks.publisher.old_spools import find_old_spools
from tardis_machine.sinks.storage.directory import LogReader
from tardis_machine.sinks.storage.quarantine import list_quarantine

_READ_BYTES = 1 << 20


class BusLag(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What waits for a bus at an endpoint, in all logs."""

    bus: str
    endpoint: str
    is_stranded: bool
    waiting_events: int
    parked_events: int
    lag_seconds: float
    """Age of the oldest event that is not settled."""


class LetterFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file of dead letters."""

    bus: str
    path: str
    events: int
    bytes: int


class SpoolLeft(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A spool of the version before."""

    bus: str
    directory: str
    bytes: int


class QuarantinedBytes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a log that could not be read."""

    log: str
    offset: int
    bytes: int
    reason: str


class Inventory(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that publishing has on disk."""

    root: str
    buses: tuple[BusLag, ...]
    backlogs: tuple[Backlog, ...]
    quarantine: tuple[QuarantinedBytes, ...]
    dead_letters: tuple[LetterFile, ...]
    old_spools: tuple[SpoolLeft, ...]


def take_inventory(
    root: Path,
    readers: Iterable[LogReader],
    producer_id: str,
    letter_folders: Mapping[str, Path],
    old_places: Iterable[Path],
    clock: Clock,
) -> Inventory:
    """Say what is on disk.

    Args:
        root: where logs are.
        readers: the buses that are configured.
        producer_id: under which events are published.
        letter_folders: where each bus keeps its dead letters.
        old_places: where the version before kept spools.
        clock: what time it is.
    """
    backlogs = tuple(find_backlogs(root, readers, producer_id, clock))
    return Inventory(
        root=str(root),
        buses=tuple(_lags(backlogs)),
        backlogs=backlogs,
        quarantine=tuple(
            QuarantinedBytes(
                log=note.log_id, offset=note.offset, bytes=note.size, reason=note.reason
            )
            for note in list_quarantine(root)
        ),
        dead_letters=tuple(_letters(letter_folders)),
        old_spools=tuple(_spools(old_places)),
    )


def _lags(backlogs: Sequence[Backlog]) -> Iterator[BusLag]:
    for reader in sorted({each.reader for each in backlogs}, key=lambda each: each.name):
        own = [each for each in backlogs if each.reader == reader]
        yield BusLag(
            bus=reader.bus,
            endpoint=reader.endpoint,
            is_stranded=any(each.state is BacklogState.STRANDED and each.events for each in own),
            waiting_events=sum(each.waiting_events for each in own),
            parked_events=sum(each.parked_events for each in own),
            lag_seconds=max(each.oldest_seconds for each in own),
        )


def _spools(places: Iterable[Path]) -> Iterator[SpoolLeft]:
    for spool in find_old_spools(places):
        with suppress(FileNotFoundError):
            yield SpoolLeft(bus=spool.bus, directory=str(spool.directory), bytes=spool.size_bytes)


def _letters(folders: Mapping[str, Path]) -> Iterator[LetterFile]:
    for bus, folder in folders.items():
        for path in letter_files(folder):
            with suppress(FileNotFoundError):
                size = path.stat().st_size
                yield LetterFile(bus=bus, path=str(path), events=_lines(path) // 2, bytes=size)


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(part.count(b"\n") for part in iter(lambda: file.read(_READ_BYTES), b""))
