"""What the recorder hears of one feed."""

from collections.abc import Sequence
from typing import Protocol

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import venue_of
from tardis_machine.model.requests import Filter
from tardis_machine.sources.live.feed import ExchangeFeed
from tardis_machine.sources.live.listeners import FeedKey, FeedListener, Loss
from tardis_machine.sources.live.source import LiveSource
from tardis_machine.sources.recording.exchange_lines import ExchangeLines
from tardis_machine.sources.recording.markers import RecordedLoss


class Owner(Protocol):
    """The recorder, as its taps know it."""

    source: LiveSource | None

    def leave(self, tap: "RecorderTap") -> None:
        """Listen to a feed no longer."""

    def refresh(self, exchange: str) -> None:
        """Ask for the books of an exchange again."""


class RecorderTap(FeedListener):
    """Records the messages of a feed, and where they have an end.

    Feeds of one exchange may overlap, if clients chose different timeouts. What the elder ones
    bring is recorded from them.

    Args:
        owner: the recorder.
        key: which feed.
        lines: takes what is recorded of the exchange.
        siblings: the taps of the exchange, the eldest first.
    """

    wants_messages = True

    def __init__(
        self, owner: Owner, key: FeedKey, lines: ExchangeLines, siblings: Sequence["RecorderTap"]
    ) -> None:
        self.key = key
        self._owner = owner
        self._lines = lines
        self._siblings = siblings
        self._format = venue_of(REGISTRY[key.exchange]).formats[-1]

    @property
    def feed(self) -> ExchangeFeed | None:
        """Return the feed, while it runs."""
        source = self._owner.source
        return None if source is None else source.feed(self.key)

    def take_message(self, local_us: int, message: bytes) -> None:
        """Record a message, unless an elder feed brings it."""
        if self._siblings[0] is self or not self._is_brought(message):
            self._lines.add(local_us, message)

    def lost(self, loss: Loss) -> None:
        """Note what starts over."""
        self._mark(loss)

    def left(self, loss: Loss) -> None:
        """Note what is followed no longer; a younger feed may go on with it."""
        self._mark(loss)
        if len(self._siblings) > 1:
            self._owner.refresh(self.key.exchange)

    def closed(self) -> None:
        """Record nothing more."""
        self._owner.leave(self)

    def _mark(self, loss: Loss) -> None:
        symbols = loss.symbols
        if self._siblings[0] is not self and symbols is not None:
            symbols = frozenset(name for name in symbols if not self._has_elder(loss, name))
        if symbols is None or symbols:
            self._lines.mark(
                RecordedLoss(
                    local_timestamp=loss.local_timestamp,
                    data_types=tuple(sorted(loss.data_types)),
                    symbols=None if symbols is None else tuple(sorted(symbols)),
                    is_everything=loss.is_whole_socket and self._is_alone(),
                )
            )

    def _is_alone(self) -> bool:
        """Say whether nothing of the exchange comes but by one socket."""
        feed = self.feed
        return len(self._siblings) == 1 and (feed is None or feed.socket_count <= 1)

    def _has_elder(self, loss: Loss, symbol: str) -> bool:
        """Say whether elder feeds bring all that was lost of a symbol."""
        return all(
            self._is_elders(Filter(entry.channel, (native,)))
            for entry in loss.filters
            for native in entry.symbols or ()
            if native.upper() == symbol
        )

    def _is_brought(self, message: bytes) -> bool:
        tag = self._format.tag.read(message)
        if tag is None:
            return True
        entry = self._format.locate(tag)
        if not entry.symbols and self._format.symbols is not None:
            entry = Filter(entry.channel, self._format.symbols(message))
        return self._is_elders(entry)

    def _is_elders(self, entry: Filter) -> bool:
        elders = self._siblings[: self._siblings.index(self)]
        feeds = [elder.feed for elder in elders]
        return any(feed is not None and feed.brings(entry) for feed in feeds)
