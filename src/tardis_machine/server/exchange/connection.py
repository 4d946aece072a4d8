"""One client of an exchange: what is written to it, and what it got."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from tardis_machine.server.ws_frames import close_frame, ping_frame, text_frames
from tardis_machine.sources.simulator.listener import Fill

MAX_QUEUED_BYTES = 16 * 1024 * 1024
"""What may wait for a client that reads slowly; beyond it the exchange hangs up."""

CLOSE_SECONDS = 2.0
"""How long a client may take to answer a close frame."""

SLOW_CONSUMER = 1008


class Address(NamedTuple):
    """Where a client connected to, in the venue's own terms."""

    host: str
    path: str
    query: dict[str, str]


class TradeRange(NamedTuple):
    """The trades of a symbol that were written to a client: how many, first and last id."""

    trades: int
    first: str
    last: str


class Connection:
    """Collects frames for one WebSocket and writes them together."""

    def __init__(
        self,
        number: int,
        exchange: str,
        address: Address,
        transport: asyncio.Transport,
        wants_flush: Callable[["Connection"], None],
        max_queued_bytes: int = MAX_QUEUED_BYTES,
    ) -> None:
        self.number = number
        self.exchange = exchange
        self.address = address
        self.ended: str | None = None
        """Why the exchange ended it; None while it did not."""
        self.sent: Counter[str] = Counter()
        """Messages written per subscription, by its name."""
        self.trades: dict[str, TradeRange] = {}
        self.is_stalled = False
        """Whether nothing is written any more, although the connection stays open."""
        self.gaps_due = 0
        """How many of the next numbered book messages are left out."""
        self.has_numbered_books = False
        self.before_publish: Callable[[], None] | None = None
        """Called ahead of every message, where faults come by chance."""
        self._transport = transport
        self._wants_flush = wants_flush
        self._max_queued_bytes = max_queued_bytes
        self._frames: list[bytes] = []
        self._last_text = ""

    def send(self, text: str) -> None:
        """Write an answer at once."""
        self._queue(text)
        self.flush()

    def publish(self, name: str, text: str, *, is_numbered_book: bool = False) -> bool:
        """Write a message of a subscription with the next flush, unless a fault forbids it."""
        if self.before_publish is not None and self.ended is None:
            self.before_publish()
        if self.ended is not None or self.is_stalled:
            return False
        if is_numbered_book and self.gaps_due:
            self.gaps_due -= 1
            return False
        self.sent[name] += 1
        self._last_text = text
        self._queue(text)
        return True

    def send_garbage(self, rng: Random) -> None:
        """Write a frame that is not JSON: half of the last message, or no message at all."""
        half = self._last_text[: len(self._last_text) // 2]
        self.send(rng.choice([half or "{", "not a JSON text", '{"unfinished":[1,2', "\x00"]))

    def note_trades(self, symbol: str, fills: Sequence[Fill]) -> None:
        """Remember which trades went to this client."""
        before = self.trades.get(symbol) or TradeRange(0, fills[0].id, "")
        trades = before.trades + len(fills)
        self.trades[symbol] = TradeRange(trades, before.first, fills[-1].id)

    def _queue(self, text: str) -> None:
        if not self._frames:
            self._wants_flush(self)
        self._frames.append(text.encode())

    def flush(self) -> None:
        """Write what is queued; hang up on a client that does not read."""
        frames, self._frames = self._frames, []
        if not frames or not self._can_write():
            return
        self._transport.write(text_frames(frames))
        if self._transport.get_write_buffer_size() > self._max_queued_bytes:
            self.close(SLOW_CONSUMER, "slow consumer")

    def ping(self) -> None:
        """Send a ping frame."""
        if self._can_write():
            self._transport.write(ping_frame(b""))

    def _can_write(self) -> bool:
        return self.ended is None and not self.is_stalled and not self._transport.is_closing()

    def close(self, code: int, reason: str) -> None:
        """Send a close frame after what is queued; a client that ignores it is cut off."""
        if self.ended is not None:
            return
        self.flush()
        can_write = self._can_write()
        self.ended = f"closed with {code} {reason}".rstrip()
        if can_write:
            self._transport.write(close_frame(code, reason))
            asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._transport.abort)

    def abort(self, reason: str) -> None:
        """Cut the connection without a close frame."""
        self.ended = self.ended or reason
        self._transport.abort()
