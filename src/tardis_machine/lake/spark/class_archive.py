"""A class-data sharing (CDS) archive: later JVMs start without loading and verifying classes.

The first JVM that runs a whole job writes it at exit; later ones map it. The file name depends on
Java, Spark, jars and JVM options, so an outdated archive is never used.
"""

import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

MAX_ARCHIVES = 3
"""Archives to keep: one for each of the two profiles, and one more."""

# The JVM writes the header last: without this magic number the archive is incomplete.
_COMPLETE = struct.pack("=I", 0xF00BABA8)


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one combination of Java, jars and options; it may not exist yet."""

    path: Path

    @property
    def is_complete(self) -> bool:
        """Say whether a JVM can map it."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            return file.read(len(_COMPLETE)) == _COMPLETE

    def read_options(self) -> list[str]:
        """Return the JVM options that use it; the JVM ignores a damaged archive."""
        with suppress(OSError):
            self.path.touch()
        return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto", "-Xlog:cds=off"]

    def write_options(self) -> list[str]:
        """Return the JVM options that write it at exit."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        remove_others(self.path)
        return [f"-XX:ArchiveClassesAtExit={self.path}", "-Xlog:cds=off"]


def remove_others(archive: Path) -> None:
    """Remove the archives that were not used for longest: each has some 200 MB."""
    others = [path for path in archive.parent.glob("classes-*.jsa") if path != archive]
    with suppress(OSError):
        others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in others[MAX_ARCHIVES - 1 :]:
            # A JVM that has it mapped keeps what it maps.
            path.unlink()


def archive_for(cache_dir: Path, java_home: Path, parts: Sequence[str]) -> ClassArchive:
    """Return the archive for this Java and these jars and options."""
    release = java_home / "release"
    version = release.read_text(encoding="utf-8") if release.exists() else str(java_home)
    digest = sha256("\n".join((version, *parts)).encode()).hexdigest()[:12]
    return ClassArchive(cache_dir / f"classes-{digest}.jsa")
