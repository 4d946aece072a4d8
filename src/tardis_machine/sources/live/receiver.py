"""From the messages of one connection to records, verdicts and counts."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from tardis_machine.exchanges.feeds import Feed, Verdict
from tardis_machine.exchanges.normalizer import SHAPE_ERRORS, Normalizer
from tardis_machine.exchanges.spec import Exchange, Mapper
from tardis_machine.exchanges.versions import live_filters, live_mappers, venue_of
from tardis_machine.model.errors import BookGapError, MappingError
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import Clock, ms_text
from tardis_machine.sources.live.books import HeldBooks
from tardis_machine.sources.live.errors import ExchangeError

SHOWN_CHARACTERS = 2000
"""How much of an error message is passed on."""

BOOKS = "book_change"

NewKey: TypeAlias = Callable[[Filter], None]
"""Told when the first message of a channel, or of one of its symbols, came."""


class Receiver:
    """Maps messages with mappers of its own: a new connection gets a new receiver.

    Args:
        exchange: whose messages they are.
        feed: how to judge those that no mapper reads.
        environment: credentials, which choose mappers.
        clock: tells arrival times.
        on_new_key: told about every channel and symbol once.
        joined: the mappers that all connections of the feed share, by data type.
    """

    def __init__(
        self,
        exchange: Exchange,
        feed: Feed,
        environment: Mapping[str, str],
        clock: Clock,
        on_new_key: NewKey,
        joined: dict[str, Mapper],
    ) -> None:
        self.books = HeldBooks()
        self.counts: dict[bytes, int] = {}
        """Mapped messages by the key of their tag."""
        self.channels: dict[bytes, str] = {}
        self.others = 0
        """Messages that no mapper read and that are not heartbeats."""
        self.received_bytes = 0
        self.local_us = clock()
        """When the last message came."""
        self._local_ms = self.local_us // 1000
        self.local = ms_text(self._local_ms)
        """The same as wire text."""
        self._exchange = exchange
        self._feed = feed
        self._environment = environment
        self._clock = clock
        self._on_new_key = on_new_key
        self._joined = joined
        self._mappers = live_mappers(exchange, (), environment)
        self._normalizer = self._new_normalizer()
        self.book_channels: frozenset[str] = frozenset()
        self._located: dict[bytes, Filter] = {}
        self._pending: list[Record] = []

    @property
    def has_pending(self) -> bool:
        """Say whether records wait to be taken."""
        return bool(self._pending)

    @property
    def messages(self) -> int:
        """Return how many messages came that are not heartbeats."""
        return self.others + sum(self.counts.values())

    def add_types(self, data_types: Iterable[str]) -> None:
        """Map to further data types too; known ones keep their state."""
        new = [name for name in data_types if name not in self._mappers]
        if not new:
            return
        made = live_mappers(self._exchange, new, self._environment)
        for name in self._feed.joined.intersection(made):
            made[name] = self._joined.setdefault(name, made[name])
        self._mappers |= made
        before, self._normalizer = self._normalizer, self._new_normalizer()
        self._normalizer.take_over(before)
        if BOOKS in new:
            filters = live_filters(self._exchange, BOOKS, None, self._environment)
            self.book_channels = frozenset(entry.channel for entry in filters)

    def take(self, message: bytes, *, is_generated: bool = False) -> Verdict | None:
        """Map a message, and return what it means when no mapper reads it.

        One that was made from a REST answer is not counted: it proves nothing about the connection.

        Raises:
            BookGapError: updates of one book are missing.
            MappingError: the message cannot be mapped; nothing but itself is lost.
            ExchangeError: it is an error message, or a book can no longer be followed.
        """
        self._note_time()
        self.received_bytes += len(message)
        try:
            key = self._normalizer.map_message(message, self.local, self._pending.append)
        except BookGapError:
            raise
        except MappingError as error:
            self._judge(message)
            if self._is_of_a_book(message):
                raise ExchangeError(str(error)) from error
            raise
        if key is None:
            return self._judge(message)
        if not is_generated:
            try:
                self.counts[key] += 1
            except KeyError:
                self._note_key(key, message)
        return None

    def take_records(self) -> list[Record]:
        """Return what was mapped since the last call."""
        records = self._pending.copy()
        self._pending.clear()
        self.books.apply(records)
        return records

    def forget(self, entry: Filter) -> None:
        """Drop what is known of symbols that are subscribed no longer."""
        for symbol in entry.symbols or ():
            if entry.channel in self.book_channels:
                self.books.drop(symbol.upper())
                self._mappers[BOOKS].forget(symbol)
        gone = set(entry.symbols or ())
        for key, located in [*self._located.items()]:
            if located.channel == entry.channel and not gone.isdisjoint(located.symbols or ()):
                del self._located[key], self.counts[key], self.channels[key]

    def _judge(self, message: bytes) -> Verdict:
        try:
            verdict = self._feed.judge(message)
        except SHAPE_ERRORS as error:
            raise ExchangeError(f"Received a message that is no JSON: {_shown(message)}") from error
        if verdict is Verdict.ERROR:
            raise ExchangeError(f"Received error message: {_shown(message)}")
        if verdict is not Verdict.HEARTBEAT:
            self.others += 1
        return verdict

    def _is_of_a_book(self, message: bytes) -> bool:
        located = self._normalizer.locate(message)
        return located is not None and located.channel in self.book_channels

    def _note_time(self) -> None:
        self.local_us = now_us = self._clock()
        # Most messages of a burst come in the same millisecond.
        local = now_us // 1000
        if local != self._local_ms:
            self._local_ms = local
            self.local = ms_text(local)

    def _note_key(self, key: bytes, message: bytes) -> None:
        located = self._normalizer.locate(message)
        if located is None:
            # Mapped by its start, although what follows there cannot be read.
            self.others += 1
            return
        self.counts[key] = 1
        self.channels[key] = located.channel
        self._located[key] = located
        self._on_new_key(located)

    def _new_normalizer(self) -> Normalizer:
        wire_format = venue_of(self._exchange).formats[-1]
        return Normalizer(self._exchange.id, wire_format, list(self._mappers.values()))


def _shown(message: bytes) -> str:
    return message[:SHOWN_CHARACTERS].decode(errors="replace")
