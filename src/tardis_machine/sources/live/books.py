"""Books as the feed has them now, for clients that join later."""

from collections.abc import Container, Iterable

from tardis_machine.model.records import AnyBookChange, BookChange, BookLevel, Record


class HeldBook:
    """The levels of one symbol."""

    __slots__ = ("asks", "bids", "last")

    def __init__(self, snapshot: AnyBookChange) -> None:
        self.bids = {level.price: level.amount for level in snapshot.bids}
        self.asks = {level.price: level.amount for level in snapshot.asks}
        self.last = snapshot

    def apply(self, change: AnyBookChange) -> None:
        """Change levels; those without an amount are gone."""
        _apply(self.bids, change.bids)
        _apply(self.asks, change.asks)
        self.last = change

    def snapshot(self, local_timestamp: str) -> BookChange:
        """Return the whole book as a record, best levels first."""
        last = self.last
        return BookChange(
            symbol=last.symbol,
            exchange=last.exchange,
            is_snapshot=True,
            bids=[BookLevel(price, self.bids[price]) for price in sorted(self.bids, reverse=True)],
            asks=[BookLevel(price, self.asks[price]) for price in sorted(self.asks)],
            timestamp=last.timestamp,
            local_timestamp=local_timestamp,
        )


class HeldBooks:
    """The books of one connection."""

    def __init__(self) -> None:
        self._books: dict[str, HeldBook] = {}

    def apply(self, records: Iterable[Record]) -> None:
        """Follow the book changes among records; before its snapshot a book is not held."""
        for record in records:
            if isinstance(record, AnyBookChange):
                if record.is_snapshot:
                    self._books[record.symbol] = HeldBook(record)
                elif (book := self._books.get(record.symbol)) is not None:
                    book.apply(record)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._books

    def drop(self, symbol: str) -> None:
        """Forget a book whose updates are missing."""
        self._books.pop(symbol, None)

    def snapshots(self, symbols: Container[str] | None, local_timestamp: str) -> list[BookChange]:
        """Return the books of these symbols; None for all."""
        return [
            book.snapshot(local_timestamp)
            for symbol, book in self._books.items()
            if symbols is None or symbol in symbols
        ]


def _apply(levels: dict[float, float], changes: Iterable[BookLevel]) -> None:
    for change in changes:
        if change.amount == 0:
            levels.pop(change.price, None)
        else:
            levels[change.price] = change.amount
