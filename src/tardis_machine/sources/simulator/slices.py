"""Simulated minutes as slices of the replay cache."""

from pathlib import Path

import zstandard

from tardis_machine.sources.cache import SliceFolder, UnconfirmedFile

COMPRESSION_LEVEL = 3
_SUFFIX = ".zst"


def slice_path(cache_dir: Path, exchange: str, minute_us: int) -> Path:
    """Return where the slice of one minute with all channels lives."""
    base = SliceFolder(cache_dir, exchange, filters=()).base_path(minute_us)
    return base.with_name(base.name + _SUFFIX)


def write_slice(path: Path, content: bytes) -> int:
    """Compress and write one slice, whole or not at all; return its size on disk."""
    compressed = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compress(content)
    with UnconfirmedFile(path.with_suffix("")) as file:
        file.write(compressed)
        file.confirm(path.suffix)
    return len(compressed)
