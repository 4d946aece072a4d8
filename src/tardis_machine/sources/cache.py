"""Slices on disk, in the layout that the vendor's own tools use too.

`<cache>/feeds/<exchange>/<filters hash>/<YYYY>/<MM>/<DD>/<HH>/<mm>[.size-<n>].json.zst|.gz`, in
UTC. A file appears under its name only when it is complete.
"""

import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from tardis_machine.exchanges.filters import filters_hash
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import MINUTE_US, ms_text
from tardis_machine.model.user_folders import cache_folder

MAX_SLICE_MINUTES = 10
"""The data API serves no longer slices."""

HOUR_US = 60 * MINUTE_US
PRIVATE = 0o700
_SLICE_NAME = re.compile(r"(\d\d)(?:\.size-([1-9]\d*))?\.json\.(zst|gz)", re.ASCII)
# A range is planned front to back, and a slice may start in the hour before.
_KEPT_HOURS = 4


@dataclass(frozen=True, slots=True)
class SliceFile:
    """A complete slice on disk and the minutes it covers."""

    path: Path
    start_us: int
    minutes: int
    is_whole_feed: bool = False

    @property
    def end_us(self) -> int:
        """Return the first instant that the slice does not cover."""
        return self.start_us + self.minutes * MINUTE_US


class SliceFolder:
    """The cached slices of one exchange and one set of filters."""

    def __init__(self, cache_dir: Path, exchange: str, filters: Iterable[Filter]) -> None:
        filters = tuple(filters)
        self.path = cache_dir / "feeds" / exchange / filters_hash(filters)
        self.is_whole_feed = not filters
        self._hours: dict[int, dict[int, SliceFile]] = {}

    def base_path(self, start_us: int, minutes: int = 1) -> Path:
        """Return the path of a slice without its compression suffix."""
        size = f".size-{minutes}" if minutes > 1 else ""
        return self.path / f"{minute_path(start_us)}{size}.json"

    def find(self, minute_us: int) -> SliceFile | None:
        """Return a slice that covers the minute, the one that starts latest."""
        for back in range(MAX_SLICE_MINUTES):
            start_us = minute_us - back * MINUTE_US
            file = self._hour(start_us - start_us % HOUR_US).get(start_us)
            if file and file.minutes > back:
                return file
        return None

    def find_exact(self, start_us: int, minutes: int) -> SliceFile | None:
        """Return the slice of exactly these minutes, by a fresh look at the disk."""
        base = self.base_path(start_us, minutes)
        for suffix in (".zst", ".gz"):
            path = base.with_name(base.name + suffix)
            if path.exists():
                return SliceFile(path, start_us, minutes, self.is_whole_feed)
        return None

    def remove(self, path: Path) -> None:
        """Delete a slice and the folders that are empty without it."""
        path.unlink(missing_ok=True)
        with suppress(OSError):
            for folder in path.parents:
                folder.rmdir()
                if folder == self.path:
                    break

    def _hour(self, hour_us: int) -> dict[int, SliceFile]:
        if hour_us not in self._hours:
            while len(self._hours) >= _KEPT_HOURS:
                del self._hours[next(iter(self._hours))]
            self._hours[hour_us] = self._read_hour(hour_us)
        return self._hours[hour_us]

    def _read_hour(self, hour_us: int) -> dict[int, SliceFile]:
        """List an hour's slices by their start; of several, the longest and then zstd wins."""
        folder = self.base_path(hour_us).parent
        try:
            names = [path.name for path in folder.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return {}
        matches = sorted(
            (match for match in map(_SLICE_NAME.fullmatch, names) if match),
            key=lambda match: (int(match[2] or 1), match[3] == "zst"),
        )
        starts = ((hour_us + int(match[1]) * MINUTE_US, match) for match in matches)
        return {
            start_us: SliceFile(folder / match[0], start_us, int(match[2] or 1), self.is_whole_feed)
            for start_us, match in starts
        }


class UnconfirmedFile:
    """A slice while it is written; without `confirm` nothing of it remains."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._path = base.with_name(f"{base.name}{secrets.token_hex(8)}.unconfirmed")
        self.size_bytes = 0

    def __enter__(self) -> Self:
        self._file = self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
        self.size_bytes += len(data)

    def confirm(self, suffix: str) -> Path:
        """Give the file its final name."""
        self._file.close()
        return self._path.replace(self._base.with_name(self._base.name + suffix))

    def _open(self) -> BinaryIO:
        # A replay that cleans up may remove an empty folder just made here, hence twice.
        for _ in range(2):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                return self._path.open("wb")
        return self._path.open("wb")


def minute_path(us: int) -> str:
    """Return the relative path of a minute: `2019/06/01/00/05`."""
    text = ms_text(us // 1000)
    return f"{text[:4]}/{text[5:7]}/{text[8:10]}/{text[11:13]}/{text[14:16]}"


def own_cache(cache_dir: Path) -> None:
    """Make the user's cache folder, for the user alone, and refuse one made by somebody else.

    A folder that was chosen is taken as it is, unless anybody could have made it: one in a shared
    temp folder.

    Raises:
        SettingsError: it belongs to another user.
    """
    is_default = cache_dir == cache_folder()
    with suppress(OSError):
        # Without the right to do that, the first slice that is stored says so.
        if is_default:
            cache_dir.mkdir(parents=True, exist_ok=True)
        found = cache_dir.stat()
        is_shared = cache_dir.absolute().parent.stat().st_mode & stat.S_IWOTH
        if (is_default or is_shared) and found.st_uid not in (0, os.geteuid()):
            raise SettingsError(
                f"cache-dir {cache_dir} belongs to another user (uid {found.st_uid}), who could "
                "put false data there. Choose a folder of your own with --cache-dir."
            )
        if is_default and stat.S_IMODE(found.st_mode) != PRIVATE:
            cache_dir.chmod(PRIVATE)


def shared_cache() -> Path:
    """Return where tardis-machine and the version before keep slices if not told otherwise."""
    return Path(tempfile.gettempdir()) / ".tardis-cache"


def clear_cache(
    cache_dir: Path,
    exchange: str | None = None,
    filters: Iterable[Filter] | None = None,
    day: str | None = None,
) -> None:
    """Remove cached slices: all, of an exchange, of its filters, or of `YYYY[-MM[-DD]]` of these.

    What cannot be removed is left.
    """
    folder = cache_dir / "feeds"
    if exchange is not None:
        folder /= exchange
        if filters is not None:
            folder /= filters_hash(filters)
            if day is not None:
                folder /= day.replace("-", "/")
    shutil.rmtree(folder, ignore_errors=True)
