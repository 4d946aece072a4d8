"""Which checkpoint a bus continues: chosen by what the bus is, not only by its kind.

A checkpoint folder has a note of its bus. Version 0.1.0 named folders by the kind of bus alone and
wrote no note: the first bus of the kind that is read after an update continues such a folder.
"""

import hashlib
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias

import msgspec

from tardis_machine.lake.errors import DataLossError, loss_text
from tardis_machine.lake.store.files import exists, read_text, write_text
from tardis_machine.lake.store.store import Store

NOTE_FILE = "bus.json"
DIGEST_CHARACTERS = 12


class BusNote(msgspec.Struct, frozen=True):
    """What tells a bus from others of its kind."""

    endpoint: str
    """Server, cluster or directory; without secrets."""
    streams: dict[str, str] = {}
    """Ids of its streams, where the positions in the checkpoint do not have them."""


FindNote: TypeAlias = Callable[[str], BusNote | None]
"""Returns the note of a folder, or None when the folder belongs to nobody yet."""


def find_checkpoint(store: Store, query: str, bus: BusNote, *, fails_on_loss: bool) -> str:
    """Return the checkpoint location of a bus, and note whose it is."""

    def note_of(folder: str) -> BusNote | None:
        text = read_text(store.spark, f"{store.checkpoint(folder)}/{NOTE_FILE}")
        return None if text is None else msgspec.json.decode(text, type=BusNote)

    has_old = exists(store.spark, store.checkpoint(query))
    folder = choose_folder(query, bus, note_of, has_old=has_old, fails_on_loss=fails_on_loss)
    before = note_of(folder)
    streams = {} if before is None else before.streams
    note = BusNote(bus.endpoint, streams | bus.streams)
    if note != before:
        path = f"{store.checkpoint(folder)}/{NOTE_FILE}"
        write_text(store.spark, path, msgspec.json.encode(note).decode())
    return store.checkpoint(folder)


def choose_folder(
    query: str, bus: BusNote, note_of: FindNote, *, has_old: bool, fails_on_loss: bool
) -> str:
    """Return the checkpoint folder of a bus.

    Args:
        query: Name of the query.
        bus: The bus, as it is now.
        note_of: Returns the note of a folder.
        has_old: Whether there is a folder with the name that older versions gave it.
        fails_on_loss: Raise DataLossError when a stream was deleted and made anew; otherwise
            begin a new folder, so that it is read from its start.
    """
    changed: set[str] = set()
    for folder in _folders(query, bus, has_old=has_old):
        note = note_of(folder)
        if note is None:
            break
        if note.endpoint != bus.endpoint:
            continue
        found = {name for name, id_ in bus.streams.items() if note.streams.get(name, id_) != id_}
        if not found:
            return folder
        changed |= found
    if changed and fails_on_loss:
        names = ", ".join(sorted(changed))
        raise DataLossError(loss_text(f"{query} stopped: {names} was deleted and recreated"))
    return folder


def _folders(query: str, bus: BusNote, *, has_old: bool) -> Iterator[str]:
    """Yield the names of folders that may belong to a bus, in the order to try them."""
    if has_old:
        yield query
    digest = hashlib.sha256(bus.endpoint.encode()).hexdigest()[:DIGEST_CHARACTERS]
    yield f"{query}-{digest}"
    for number in count(2):
        yield f"{query}-{digest}-{number}"
