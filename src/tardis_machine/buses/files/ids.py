"""Ids of a files bus and of its streams: what tells a directory from another in its place.

An id is a small file in the directory. Whoever comes first writes it, writer or reader: a
directory that is deleted and made anew gets another id, one that is moved keeps its own.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

ID_FILE = "id"


def read_id(directory: Path) -> str | None:
    """Return the id of a directory; None when it has none."""
    try:
        return (directory / ID_FILE).read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None


def ensure_id(directory: Path) -> str:
    """Return the id of a directory, which gets one if it has none."""
    if found := read_id(directory):
        return found
    made = secrets.token_hex(8)
    draft = directory / f".{ID_FILE}.{made}"
    draft.write_text(f"{made}\n", encoding="ascii")
    try:
        # Unlike a rename, a link never replaces the id that another process wrote meanwhile.
        with suppress(FileExistsError):
            os.link(draft, directory / ID_FILE)
    finally:
        draft.unlink()
    return read_id(directory) or made
