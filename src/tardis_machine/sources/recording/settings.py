"""Settings of recordings."""

import re
import socket
from dataclasses import dataclass
from pathlib import Path

from tardis_machine.model.settings import computed_option, option


def _default_recorder_id() -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64] or "recorder"


@dataclass(frozen=True, kw_only=True)
class RecordSettings:
    """Recording of live messages."""

    record: Path | None = option(
        None,
        "Directory to record live messages to, as slices that replays read; the server also "
        "replays from it (default: record nothing).",
        metavar="directory",
    )
    recorder_id: str = computed_option(
        _default_recorder_id,
        "Name of this recorder in its slices, and of their replays on buses and in the lake.",
        shown_default="<host name>",
        pattern=r"[A-Za-z0-9._-]{1,64}",
    )
    record_queue_max_bytes: int = option(
        64 * 1024 * 1024,
        "Maximum bytes of messages that wait to be recorded; more are not recorded, and counted.",
        minimum=1024 * 1024,
    )
