"""Checksums of live books: a venue says what its best levels add up to, and ours must do so too.

A formula is trusted for a symbol once it fits its snapshot: a venue that changed the formula, or
sends zeros, must not make books begin anew without end. From then on a mismatch is a gap.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest, nsmallest
from itertools import chain, zip_longest
from typing import Any, ClassVar, Protocol, TypeAlias
from zlib import crc32

from msgspec import Raw, Struct
from msgspec.json import Decoder

from tardis_machine.exchanges.chains import NumberedBookMapper
from tardis_machine.exchanges.level_texts import Pair
from tardis_machine.exchanges.spec import drop_symbol
from tardis_machine.model.errors import BookGapError

SECOND_DIGITS = len("2026-09-01T00:00:00")
"""A book is compared once per second at most: that costs more than to map an update."""

MOST_MISMATCHES = 3
"""After as many gaps of one symbol its checksums are ignored until the next connection."""

TextLevel: TypeAlias = tuple[str, str]
"""Price and amount in the digits of the venue."""


class RawLevel(Protocol):
    """Price and amount as they stand in a message, numbers or text."""

    @property
    def price(self) -> Raw:
        """Return its price."""

    @property
    def amount(self) -> Raw:
        """Return its amount."""


class RawSides(Protocol):
    """The levels of a message as they stand there."""

    @property
    def bids(self) -> Sequence[RawLevel]:
        """Return changed bids, or all."""

    @property
    def asks(self) -> Sequence[RawLevel]:
        """Return changed asks, or all."""


class CheckedSides(Protocol):
    """The levels of a message as numbers, and what the venue says of the whole book."""

    @property
    def bids(self) -> Sequence[Pair]:
        """Return changed bids, or all."""

    @property
    def asks(self) -> Sequence[Pair]:
        """Return changed asks, or all."""

    @property
    def checksum(self) -> Any:
        """Return what the venue computed; none or zero says nothing."""


class RawPair(Struct, array_like=True, gc=False):
    """A level that is an array."""

    price: Raw
    amount: Raw


Decode: TypeAlias = Callable[[Raw], RawSides]
"""Reads the levels of a snapshot or update again, for their text."""


class Formula(Struct, frozen=True):
    """How a venue computes the checksum of a book."""

    depth: int
    """How many levels of each side count."""
    compute: Callable[[Sequence[TextLevel], Sequence[TextLevel]], int]
    """Takes the best bids and asks, best first."""


def alternating_sum(bids: Sequence[TextLevel], asks: Sequence[TextLevel]) -> int:
    """Return the signed CRC32 of bids and asks in turn: `bid:amount:ask:amount:bid:…`."""
    in_turn = chain.from_iterable(zip_longest(bids, asks, fillvalue=()))
    unsigned = crc32(":".join(chain.from_iterable(in_turn)).encode())
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def asks_first_sum(bids: Sequence[TextLevel], asks: Sequence[TextLevel]) -> int:
    """Return the CRC32 of all digits, asks before bids, without dots and leading zeros."""
    texts = chain.from_iterable((*asks, *bids))
    return crc32("".join(text.replace(".", "").lstrip("0") for text in texts).encode())


ALTERNATING = Formula(25, alternating_sum)
"""Of OKX, which sends zeros since June 2026, and of Bitget."""

ASKS_FIRST = Formula(10, asks_first_sum)
"""Of Kraken."""


class TextBook:
    """The levels of one symbol, each with its text or with the message that has it.

    Updates only note where the text is: it is read when a level is among the best.
    """

    __slots__ = ("asks", "bids", "compared")

    def __init__(self) -> None:
        self.bids: dict[float, TextLevel | Raw] = {}
        self.asks: dict[float, TextLevel | Raw] = {}
        self.compared = ""
        """The second in which it was last compared."""

    def apply(self, bids: Iterable[Pair], asks: Iterable[Pair], message: Raw) -> None:
        """Change levels; those without an amount are gone."""
        for levels, changes in ((self.bids, bids), (self.asks, asks)):
            for change in changes:
                if change.amount:
                    levels[change.price] = message
                else:
                    levels.pop(change.price, None)

    def sum(self, formula: Formula, decode: Decode) -> int:
        """Return the checksum of the best levels."""
        best_bids = nlargest(formula.depth, self.bids)
        best_asks = nsmallest(formula.depth, self.asks)
        return formula.compute(
            texts_of(self.bids, best_bids, lambda message: decode(message).bids),
            texts_of(self.asks, best_asks, lambda message: decode(message).asks),
        )


def texts_of(
    levels: dict[float, TextLevel | Raw],
    prices: Iterable[float],
    read: Callable[[Raw], Iterable[RawLevel]],
) -> list[TextLevel]:
    """Return the texts of these levels, after reading those that are still in messages."""
    texts: list[TextLevel] = []
    for price in prices:
        text = levels[price]
        if isinstance(text, Raw):
            found = {float(level[0]): level for level in map(digits_of, read(text))}
            # Later messages may have changed the others.
            levels.update((near, found[near]) for near in found if levels.get(near) is text)
            text = found[price]
        texts.append(text)
    return texts


def digits_of(level: RawLevel) -> TextLevel:
    """Return the numbers of a level without the quotes around them."""
    return bytes(level.price).decode().strip('"'), bytes(level.amount).decode().strip('"')


class CheckedBooks:
    """The books of one connection whose checksums are trusted.

    Args:
        formula: of the venue.
        decode: reads the text of its messages.
    """

    def __init__(self, formula: Formula, decode: Decode) -> None:
        self._formula = formula
        self._decode = decode
        self._books: dict[str, TextBook] = {}
        self._mismatches: Counter[str] = Counter()
        """By symbol, however often its book began anew."""

    def forget(self, symbol: str) -> None:
        """Drop a book, however its symbol is written."""
        drop_symbol(self._books, symbol)

    def begin(self, symbol: str, sides: CheckedSides, message: Raw) -> None:
        """Take a snapshot; the book is followed if its checksum fits."""
        self._books.pop(symbol, None)
        if not sides.checksum or self._mismatches[symbol] >= MOST_MISMATCHES:
            return
        book = TextBook()
        book.apply(sides.bids, sides.asks, message)
        if book.sum(self._formula, self._decode) == sides.checksum:
            self._books[symbol] = book

    def change(self, symbol: str, sides: CheckedSides, message: Raw, local: str) -> None:
        """Take an update that arrived at `local`.

        Raises:
            BookGapError: the book is not that of the venue.
        """
        book = self._books.get(symbol)
        if book is None:
            return
        book.apply(sides.bids, sides.asks, message)
        second = local[:SECOND_DIGITS]
        if not sides.checksum or second == book.compared:
            return
        book.compared = second
        ours = book.sum(self._formula, self._decode)
        if ours != sides.checksum:
            del self._books[symbol]
            self._mismatches[symbol] += 1
            raise BookGapError(symbol, f"a book adds up to {ours}, not {sides.checksum}.")


class CheckedBookMapper(NumberedBookMapper):
    """Maps books whose messages have a checksum; it is compared live alone."""

    formula: ClassVar[Formula]
    raw_sides: ClassVar[type[RawSides]]
    """The struct that messages are decoded into for the text of their levels."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._checked = CheckedBooks(self.formula, Decoder(self.raw_sides).decode)

    def forget(self, symbol: str) -> None:
        """Let a book wait for a snapshot again."""
        super().forget(symbol)
        self._checked.forget(symbol)

    def compare(
        self, symbol: str, sides: CheckedSides, message: Raw, local: str, *, is_snapshot: bool
    ) -> None:
        """Compare a live book with its checksum, after a message that follows the one before it.

        Raises:
            BookGapError: the book is not that of the venue; it waits for a snapshot again.
        """
        if is_snapshot:
            self._checked.begin(symbol, sides, message)
            return
        try:
            self._checked.change(symbol, sides, message, local)
        except BookGapError:
            self._chain.forget(symbol)
            raise
