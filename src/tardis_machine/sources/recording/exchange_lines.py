"""What one exchange sends, as lines in blocks for the writer."""

from collections.abc import Callable

from tardis_machine.model.time import Clock
from tardis_machine.sources.recording.markers import (
    Marker,
    RecordedLoss,
    line_start,
    marker_line,
)
from tardis_machine.sources.recording.writer import Block, RecordingWriter, minute_of

BLOCK_BYTES = 64 * 1024
JSON_STARTS = (b"{", b"[")
RECORDED = "recorded"


class ExchangeLines:
    """Collects lines, and hands them on by the minute.

    Args:
        exchange: whose.
        recorder: the id of the recorder.
        writer: takes blocks.
        clock: tells the time.
        count: told how many messages were taken, or why they were not.
    """

    def __init__(
        self,
        exchange: str,
        recorder: str,
        writer: RecordingWriter,
        clock: Clock,
        count: Callable[[str, str, int], None],
    ) -> None:
        self.exchange = exchange
        self._recorder = recorder
        self._writer = writer
        self._clock = clock
        self._count = count
        self._is_interrupted = True
        """Whether something is missing before the next block."""
        self._lines: list[bytes] = []
        self._bytes = 0
        self._messages = 0
        self._last_us = clock()
        self._minute_us = -1

    def add(self, local_us: int, message: bytes) -> None:
        """Take a message; plain words, which some venues use as heartbeats, are left out."""
        if message.startswith(JSON_STARTS):
            # Between two values of JSON a newline is a blank, and within one it cannot be.
            self._add_line(local_us, message.replace(b"\n", b" ") + b"\n")
            self._messages += 1

    def mark(self, loss: RecordedLoss) -> None:
        """Note what starts over; an empty line tells it to tools of others, if it is everything."""
        self._advance(self._clock())
        self._append(marker_line(self._last_us, Marker(self._recorder, loss)))
        if loss.is_everything:
            self._append(b"\n")

    def flush(self) -> None:
        """Hand on what was collected; a minute without messages begins, too."""
        self._advance(self._clock())
        self._hand_on()

    def end(self) -> None:
        """Complete the minute: nothing comes for now."""
        self._hand_on()
        self._writer.end(self.exchange)
        self._minute_us = -1
        self._is_interrupted = True

    def _add_line(self, local_us: int, text: bytes) -> None:
        self._advance(local_us)
        self._append(line_start(self._last_us) + text)
        if self._bytes > BLOCK_BYTES:
            self._hand_on()

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)

    def _advance(self, now_us: int) -> None:
        """Begin another minute when it is time; a clock that was set back stands still."""
        self._last_us = max(self._last_us, now_us)
        minute_us = minute_of(self._last_us)
        if minute_us == self._minute_us:
            return
        self._hand_on()
        self._minute_us = minute_us
        self._append(marker_line(minute_us, Marker(self._recorder)))

    def _hand_on(self) -> None:
        if not self._lines:
            return
        if self._is_interrupted:
            # What follows must not continue what came before.
            self._lines.insert(0, b"\n")
        block = Block(self.exchange, self._minute_us, b"".join(self._lines), self._messages)
        self._lines, self._bytes, self._messages = [], 0, 0
        is_taken = self._writer.put(block)
        self._is_interrupted = not is_taken
        self._count(self.exchange, RECORDED if is_taken else "queue", block.messages)
