"""Pages that the driver fetched to find the end of a batch, kept for the tasks that write it.

The spool only saves fetching twice: a task that does not find its pages fetches them from
Kinesis again.
"""

import hashlib
import uuid
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

import pyarrow as pa
from pyarrow import fs

from tardis_machine.lake.buses.positions import Range
from tardis_machine.lake.buses.rows import ARROW_SCHEMA

SUFFIX = ".arrows"


class Spool:
    """A directory that driver and executors share, local or on a file system of Arrow."""

    def __init__(self, root: str) -> None:
        self._files, path = fs.FileSystem.from_uri(root) if "://" in root else _local(root)
        self._root = PurePosixPath(path)

    def writer(self) -> "SpoolWriter":
        """Return what takes the pages of a range whose end is not known yet."""
        self._files.create_dir(str(self._root), recursive=True)
        return SpoolWriter(self._files, self._root)

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch] | None:
        """Return the pages of a range, if they are here."""
        try:
            stream = self._files.open_input_stream(str(self._root / name_of(wanted)))
        except OSError:
            return None
        return _batches(stream)

    def keep_only(self, names: Collection[str]) -> None:
        """Remove the pages of all other ranges."""
        selector = fs.FileSelector(str(self._root), allow_not_found=True)
        for info in self._files.get_file_info(selector):
            if info.base_name.endswith(SUFFIX) and info.base_name not in names:
                self._files.delete_file(info.path)


class SpoolWriter:
    """Takes the pages of one range."""

    def __init__(self, files: fs.FileSystem, root: PurePosixPath) -> None:
        self._files = files
        self._root = root
        self._path = root / f"{uuid.uuid4().hex}{SUFFIX}"
        self._stream = files.open_output_stream(str(self._path))
        self._writer = pa.ipc.new_stream(self._stream, ARROW_SCHEMA)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a page."""
        self._writer.write_batch(batch)

    def finish(self, wanted: Range) -> str:
        """Keep the pages under the name of their range, and return it."""
        self._close()
        name = name_of(wanted)
        self._files.move(str(self._path), str(self._root / name))
        return name

    def discard(self) -> None:
        """Remove what was written."""
        self._close()
        self._files.delete_file(str(self._path))

    def _close(self) -> None:
        self._writer.close()
        self._stream.close()


def name_of(wanted: Range) -> str:
    """Return the file name for the pages of a range."""
    ends = (wanted.start["sequence"], wanted.end["sequence"])
    digest = hashlib.sha256("/".join((*wanted.lane, *ends)).encode()).hexdigest()
    return f"{digest[:32]}{SUFFIX}"


def _batches(stream: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    with stream, pa.ipc.open_stream(stream) as reader:
        yield from reader


def _local(path: str) -> tuple[fs.FileSystem, str]:
    return fs.LocalFileSystem(), path
