"""Settings of publishing to files."""

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
    """Delivery options of files, where they differ from those of all buses."""


@dataclass(frozen=True, kw_only=True)
class FilesSettings(HeaderBusSettings):
    """Publish to files in a local directory."""

    bus: ClassVar[str] = "files"
    title: ClassVar[str] = "Files"
    anchors: ClassVar[tuple[str, ...]] = ("dir",)
    usual: ClassVar[tuple[str, ...]] = (
        "dir",
        "stream",
        "compression",
        "retention_bytes",
        "retention_age_ms",
    )

    dir: Path | None = option(None, "Directory of the streams. Setting it enables the files bus.")
    stream: str = option("bronze", "Stream of payload cases that stream-routing does not list.")
    stream_routing: Mapping[str, str] | None = option(
        None, "Stream per payload case.", metavar="payloadCase:stream"
    )
    stream_template: str | None = option(None, "Stream name template, such as {{exchange}}.")
    key_template: str = option(DEFAULT_KEY, "Template of the key stored with every event.")
    segment_bytes: int = option(
        64 * MIB, "Maximum size of a segment before a new one is started.", minimum=4096
    )
    segment_age_ms: int = option(
        60_000, "Maximum age of a segment before a new one is started.", minimum=1
    )
    fsync_ms: int = option(
        200,
        "Interval of fsync; events are acknowledged after it (group commit).",
        minimum=0,
        maximum=10_000,
    )
    compression: Literal["none", "zstd"] = option("none", "Compression codec of blocks.")
    retention_bytes: int = option(
        0,
        "Maximum bytes of closed segments per stream, oldest deleted first; 0: no limit.",
        minimum=0,
    )
    retention_age_ms: int = option(
        0, "Maximum age of closed segments before they are deleted; 0: no limit.", minimum=0
    )
    max_batch_size: int = option(10_000, "Maximum events per block.", minimum=1)
    max_batch_bytes: int = option(4 * MIB, "Maximum bytes per block before compression.", minimum=1)
    max_batch_delay_ms: int = option(
        0,
        "Maximum time to wait for a block to fill; no effect when below fsync-ms.",
        minimum=0,
    )
    delivery: FilesDelivery = group(FilesDelivery, "files")

    @property
    def endpoint(self) -> str:
        """Return the directory."""
        return str(self.dir.absolute()) if self.dir else ""

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
