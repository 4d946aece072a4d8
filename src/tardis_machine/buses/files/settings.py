"""Settings of the embedded bus."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from tardis_machine.bronze.keys import DEFAULT_KEY
from tardis_machine.buses.destinations import Destinations
from tardis_machine.buses.settings import MIB, HeaderBusSettings, overriding
from tardis_machine.model.settings import group, option

_STREAM = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


@overriding("fsync_ms")
class FilesDelivery:
    """What differs for files from the delivery to all buses."""


@dataclass(frozen=True, kw_only=True)
class FilesSettings(HeaderBusSettings):
    """Publish to files in a local directory."""

    bus: ClassVar[str] = "files"
    title: ClassVar[str] = "Files"
    anchors: ClassVar[tuple[str, ...]] = ("dir",)

    dir: Path | None = option(None, "Directory of the streams; none: files are off.")
    stream: str = option("bronze", "Stream of payload cases without a route of their own.")
    stream_routing: Mapping[str, str] | None = option(
        None, "Streams of single payload cases.", metavar="payloadCase:stream"
    )
    stream_template: str | None = option(None, "Stream by series, such as {{exchange}}.")
    key_template: str = option(DEFAULT_KEY, "Key noted with every event.")
    segment_bytes: int = option(64 * MIB, "Size at which a segment is closed.", minimum=4096)
    segment_age_ms: int = option(60_000, "Age at which a segment is closed.", minimum=1)
    fsync_ms: int = option(
        200, "How long events wait to be flushed to disk together.", minimum=0, maximum=10_000
    )
    compression: Literal["none", "zstd"] = option("none", "Compression of blocks.")
    retention_bytes: int = option(0, "Total of closed segments kept per stream; 0: all.", minimum=0)
    retention_age_ms: int = option(0, "Age of closed segments kept; 0: any.", minimum=0)
    max_batch_size: int = option(10_000, "Events per block.", minimum=1)
    max_batch_bytes: int = option(4 * MIB, "Bytes per block before compression.", minimum=1)
    max_batch_delay_ms: int = option(
        0, "How long a block waits for more events, where that is longer than fsync-ms.", minimum=0
    )
    delivery: FilesDelivery = group(FilesDelivery, "files")

    @property
    def destinations(self) -> Destinations:
        """Return what names the streams."""
        return Destinations(
            bus=self.bus,
            noun="stream",
            base=self.stream,
            routing=self.stream_routing,
            template=self.stream_template,
            key=self.key_template,
            pattern=_STREAM,
        )

    def problems(self) -> Iterable[str]:
        """Return what is wrong with the names of streams."""
        return self.destinations.problems()
