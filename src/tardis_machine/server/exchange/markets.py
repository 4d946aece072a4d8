"""One symbol while it is played: who hears it, and what it has sent."""

from collections import Counter
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from tardis_machine.server.exchange.history import BookHistory, TradeHistory, Update
from tardis_machine.sources.simulator.clock import UNITS_PER_SECOND, Second
from tardis_machine.sources.simulator.feed import SimulatedFeed
from tardis_machine.sources.simulator.listener import Fill
from tardis_machine.sources.simulator.market import Change

F = TypeVar("F", bound=SimulatedFeed)


class Hearer(Protocol):
    """One subscription of a client."""

    def deliver(self, body: str, fills: Sequence[Fill]) -> None:
        """Take a message of the channel, and the trades it tells of."""


class LiveMarket(Generic[F]):
    """Plays one feed event by event and hands its messages to the subscribers."""

    def __init__(self, feed: F, kept: int) -> None:
        self.feed = feed
        self.book = BookHistory(feed.market, feed.book_sequence, feed.venue_us(), kept)
        self.trades = TradeHistory(kept)
        self.sent: Counter[str] = Counter()
        """Messages per channel since the start, whether or not somebody heard them."""
        self._hearers: dict[str, list[Hearer]] = {}
        self._fills: list[Fill] = []
        self._second = feed.clock.index
        self._steps = feed.steps(feed.clock, is_connecting=False)
        feed.listener = self

    @property
    def start_units(self) -> int:
        """Return when the first event is due."""
        return self._second * UNITS_PER_SECOND

    def play_next(self) -> int:
        """Let the event that is due happen, and return when the next one is."""
        offset = next(self._steps, None)
        if offset is None:
            self._second += 1
            self._steps = self.feed.steps(Second(self._second), is_connecting=False)
            offset = 0
        return self._second * UNITS_PER_SECOND + offset

    def take_message(self, channel: str, body: str) -> None:
        """Count a message and hand it to everyone who subscribed its channel."""
        self.sent[channel] += 1
        fills, self._fills = self._fills, []
        for hearer in self._hearers.get(channel, ()):
            hearer.deliver(body, fills)

    def take_book(self, sequence: int, time_us: int, changes: Sequence[Change]) -> None:
        """Keep what a book message changes."""
        self.book.add(Update(sequence, time_us, changes))

    def take_trade(self, fill: Fill) -> None:
        """Keep a trade."""
        self.trades.add(fill)
        self._fills.append(fill)

    def subscribe(self, channel: str, hearer: Hearer) -> None:
        """Let someone hear a channel from now on."""
        self._hearers.setdefault(channel, []).append(hearer)

    def unsubscribe(self, channel: str, hearer: Hearer) -> None:
        """Let someone no longer hear a channel."""
        self._hearers[channel].remove(hearer)
