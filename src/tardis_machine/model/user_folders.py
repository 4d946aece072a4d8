"""Where the files of a user go, by the rules of each platform."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

NAME = "tardis-machine"


def cache_folder(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return the folder for what can be fetched again: slices, jars, class archives."""
    home = Path.home()
    if platform == "darwin":
        return home / "Library" / "Caches" / NAME
    if platform == "win32":
        return _given(environment, "LOCALAPPDATA", home / "AppData" / "Local") / NAME
    return _given(environment, "XDG_CACHE_HOME", home / ".cache") / NAME


def _given(environment: Mapping[str, str], name: str, default: Path) -> Path:
    """Return the folder that a variable names; a relative one counts for nothing."""
    given = Path(environment.get(name, ""))
    return given if given.is_absolute() else default
