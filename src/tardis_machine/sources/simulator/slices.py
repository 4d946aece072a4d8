"""Minute slices on disk, in the layout that the replay cache shares."""

import os
import secrets
from pathlib import Path

import zstandard

from tardis_machine.exchanges.filters import filters_hash
from tardis_machine.model.time import us_text

COMPRESSION_LEVEL = 3


def slice_path(root: Path, exchange: str, minute_us: int) -> Path:
    """Return where the slice of one minute with all channels lives."""
    text = us_text(minute_us)
    year, month, day, hour, minute = text[:4], text[5:7], text[8:10], text[11:13], text[14:16]
    folder = root / "feeds" / exchange / filters_hash(()) / year / month / day / hour
    return folder / f"{minute}.json.zst"


def write_slice(path: Path, content: bytes) -> int:
    """Compress and write one slice, whole or not at all; return its size on disk."""
    compressed = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compress(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    unconfirmed = path.with_name(f"{path.stem}{secrets.token_hex(8)}.unconfirmed")
    try:
        unconfirmed.write_bytes(compressed)
        os.replace(unconfirmed, path)  # noqa: PTH105
    finally:
        unconfirmed.unlink(missing_ok=True)
    return len(compressed)
