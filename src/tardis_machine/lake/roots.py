"""Where a lake is: a folder of this machine, or a URI that Spark can write to."""

import re
from pathlib import Path
from urllib.parse import unquote

from tardis_machine.model.errors import SettingsError

# One letter and a colon would be a drive.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE = re.compile(r"file:(?P<slashes>//(?=/))?(?P<path>/.*)", re.IGNORECASE | re.DOTALL)
# Spark and DuckDB search by some of these, the reader of Delta logs takes others for parts of URLs.
_REFUSED = re.compile(r"""[*?\[\]{}%\\|^`"'#\x00-\x1f]""")


def absolute_root(root: str) -> str:
    """Return the root of a lake as a URI or an absolute path, without a slash at its end."""
    if (found := _FILE.fullmatch(root)) and not found["slashes"]:
        root = found["path"]
    if is_local(root):
        root = str(Path(root).expanduser().absolute())
    if refused := sorted(set(_REFUSED.findall(root))):
        raise SettingsError(
            f"--lake {root}: the root of a lake cannot have {' '.join(refused)} in its path. "
            "Choose a folder with other characters."
        )
    return root.rstrip("/") or root


def is_local(root: str) -> bool:
    """Say whether the root is a folder on this machine."""
    return _URI.match(root) is None


def path_of(uri: str) -> str:
    """Return a file that Spark names by an escaped URI as a path, or a URI without escapes."""
    found = _FILE.fullmatch(uri)
    return unquote(found["path"] if found else uri)
