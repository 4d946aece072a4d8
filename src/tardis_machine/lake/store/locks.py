"""Who writes a lake: one job per stage, and `lake rebuild` alone.

Locks are flock: the system releases them when a process ends, however it ends. A root at a URI has
none, because object stores offer no such thing.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tardis_machine.lake.errors import LakeError, LakeInUseError
from tardis_machine.lake.roots import absolute_root, is_local

FOLDER = "_locks"


@contextmanager
def locked(root: str, stages: Iterable[str]) -> Iterator[None]:
    """Keep other jobs from running the same stages of a lake.

    Raises:
        LakeInUseError: another one does.
    """
    root = absolute_root(root)
    with ExitStack() as stack:
        if is_local(root):
            for stage in stages:
                stack.enter_context(_held(Path(root, FOLDER, f"{stage}.lock"), root))
        yield


@contextmanager
def _held(path: Path, root: str) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise LakeError(f"The lake {root} cannot be written: {error}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise LakeInUseError(
                f"Another process{f' ({owner})' if owner else ''} runs {path.stem} of the lake "
                f"{root}. Stop it first, or wait for its end."
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)
