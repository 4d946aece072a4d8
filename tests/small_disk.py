"""A small file system that tests can fill up."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MIB = 1_048_576


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """Give a file system of its own, of a few megabytes."""
    if os.geteuid() != 0 and "CI" not in os.environ:
        pytest.skip("only root can mount a small disk")
    # Its name has to be short: there will be sockets in it.
    path = Path(tempfile.mkdtemp())
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(path)]
    subprocess.run(mount, check=True)
    try:
        yield path
    finally:
        # Detached even where a process that was killed still has a file open.
        subprocess.run(["umount", "--lazy", str(path)], check=True)
        path.rmdir()


def fill(disk: Path) -> Path:
    """Use up all that is left of a disk."""
    path = disk / "filling"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (MIB, 4096):
            with suppress(OSError):
                while True:
                    os.write(descriptor, bytes(size))
    finally:
        os.close(descriptor)
    return path
