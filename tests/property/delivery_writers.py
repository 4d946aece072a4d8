"""Writers of logs as a server has them, and what they were told is safe."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tardis_machine.bronze.series import Origin
from tardis_machine.model.records import Liquidation, Trade
from tardis_machine.model.time import us_text
from tardis_machine.sinks.delivery.context import StreamContext, pack_context
from tardis_machine.sinks.storage.directory import LogDirectory, LogReader, create_log
from tardis_machine.sinks.storage.positions import PositionFile
from tardis_machine.sinks.storage.writer import ChunkWriter

PRODUCER = "tester"
START_US = 1_709_251_200_000_000
SEGMENT_BYTES = 1500


@dataclass
class Accepted:
    """What a writer was told is safe."""

    directory: LogDirectory
    instance: int
    events: list[tuple[str, str]] = field(default_factory=list)
    """Delivery id and record type."""
    chunks: int = 0
    not_written: int = 0

    def add(self, lines: Sequence[tuple[str, str]]) -> None:
        self.chunks += 1
        prefix = f"{self.directory.log_id}-{self.chunks:012d}-"
        self.events += [(f"{prefix}{line:06d}", kind) for line, (_, kind) in enumerate(lines)]


class Writer:
    """One worker and its log."""

    def __init__(self, root: Path, instance: int, readers: Sequence[LogReader], now: int) -> None:
        self.directory, self._lock = create_log(root, PRODUCER, str(instance), now, readers)
        self._written = PositionFile(self.directory.written_path, is_writable=True)
        self._writer = ChunkWriter(
            self.directory.path, lambda: now, "off", SEGMENT_BYTES, written=self._written
        )
        self._records = 0
        self._context = pack_context(
            StreamContext(stream="s", producer_id=PRODUCER, origin=Origin.REALTIME, meta={})
        )

    def append(self, lines: Sequence[tuple[str, str]]) -> None:
        """Write one chunk; each line is a symbol and a type."""
        body = b"".join(self._line(*line) for line in lines)
        self._writer.append(self._context, body, len(lines))

    def give_up(self, events: int) -> None:
        self._writer.give_up(events)

    def close(self) -> None:
        self._writer.close()
        self._written.close()
        self._lock.release()

    def _line(self, symbol: str, kind: str) -> bytes:
        if kind == "garbage":
            return b"{}\n"
        self._records += 1
        # Two in a row have the same time: only their ordinals tell them apart.
        when = us_text(START_US + self._records // 2)
        record = (Trade if kind == "trade" else Liquidation)(
            symbol=symbol,
            exchange="bitmex",
            price=1.0,
            amount=1.0,
            side="buy",
            timestamp=when,
            local_timestamp=when,
        )
        return msgspec.json.encode(record) + b"\n"
