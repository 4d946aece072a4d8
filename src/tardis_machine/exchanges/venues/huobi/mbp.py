"""Spot books since July 2020: `mbp` updates, joined to a book that was asked for."""

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import starmap
from typing import ClassVar

from msgspec import Struct

from tardis_machine.exchanges.level_texts import (
    Pair,
    TextLevels,
    has_levels,
    levels_of,
    pair_levels,
)
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.venues.huobi.topics import REPLY, channel_of, symbol_of
from tardis_machine.model.errors import BookGapError
from tardis_machine.model.records import AnyBookChange, BookLevel
from tardis_machine.model.time import ms_text

BUFFERED_UPDATES = 20


class Update(Struct, gc=False, rename="camel"):
    """Changed levels; a side may be missing."""

    seq_num: int
    prev_seq_num: int
    bids: list[Level] = []
    asks: list[Level] = []


class UpdateMessage(Struct, gc=False):
    """An `mbp` push."""

    ts: float
    tick: Update


class WholeBook(Struct, gc=False, rename="camel"):
    """All levels."""

    seq_num: int
    bids: list[Level] = []
    asks: list[Level] = []


class ReplyMessage(Struct, gc=False):
    """The answer to a request for a book; it may be empty."""

    ts: float
    data: WholeBook | None = None


class Book:
    """How far the book of one symbol has come."""

    __slots__ = ("has_begun", "last_number", "recent")

    def __init__(self) -> None:
        self.recent: deque[Update] = deque(maxlen=BUFFERED_UPDATES)
        self.has_begun = False
        self.last_number = 0


class MbpMapper(Mapper):
    """`mbp`; updates are held back until the first whole book."""

    updates: ClassVar[TextLevels] = pair_levels(UpdateMessage, "tick", bids="bids", asks="asks")

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._books: dict[str, Book] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle updates and whole books."""
        if channel_of(tag) != "mbp":
            return None
        symbol = symbol_of(tag).upper()
        if tag.startswith(REPLY):
            return ReplyMessage, partial(self.map_reply, symbol)
        return self.updates, partial(self.map_update, symbol)

    def map_update(self, symbol: str, message: UpdateMessage, local: str, emit: Emit) -> None:
        """Emit changed levels once the book has begun."""
        update, book = message.tick, self._book(symbol)
        book.recent.append(update)
        if not book.has_begun or (self.checks_sequence and not self._follows(symbol, update)):
            return
        bids, asks = update.bids, update.asks
        if has_levels(bids) or has_levels(asks):
            emit(self._change(symbol, bids, asks, message.ts, local, is_snapshot=False))

    def map_reply(self, symbol: str, message: ReplyMessage, local: str, emit: Emit) -> None:
        """Emit all levels, as they are after the recent updates."""
        data, book = message.data, self._book(symbol)
        if data is None:
            if self.checks_sequence:
                raise BookGapError(symbol, "the exchange answered without a book.")
            return
        newer = [update for update in book.recent if update.prev_seq_num >= data.seq_num]
        book.last_number = data.seq_num
        book.has_begun = True
        bids = {level.price: level.amount for level in data.bids}
        asks = {level.price: level.amount for level in data.asks}
        for update in newer:
            if self.checks_sequence:
                self._follows(symbol, update)
            # Removed levels stay, with an amount of zero.
            bids |= {level.price: level.amount for level in levels_of(update.bids)}
            asks |= {level.price: level.amount for level in levels_of(update.asks)}
        sides = list(starmap(BookLevel, bids.items())), list(starmap(BookLevel, asks.items()))
        emit(self._change(symbol, *sides, message.ts, local, is_snapshot=True))

    def _book(self, symbol: str) -> Book:
        book = self._books.get(symbol)
        if book is None:
            book = self._books[symbol] = Book()
        return book

    def _follows(self, symbol: str, update: Update) -> bool:
        """Say whether a live update is newer than the book.

        Raises:
            BookGapError: it does not follow the one before it.
        """
        book = self._books[symbol]
        if update.seq_num <= book.last_number:
            return False
        if update.prev_seq_num != book.last_number:
            book.has_begun = False
            raise BookGapError(
                symbol,
                f"a book update follows {update.prev_seq_num}, not {book.last_number}.",
            )
        book.last_number = update.seq_num
        return True

    def _change(
        self,
        symbol: str,
        bids: Sequence[Pair],
        asks: Sequence[Pair],
        time_ms: float,
        local: str,
        *,
        is_snapshot: bool,
    ) -> AnyBookChange:
        timestamp = ms_text(time_ms)
        return book_change(
            symbol, self.exchange, bids, asks, timestamp, local, is_snapshot=is_snapshot
        )
