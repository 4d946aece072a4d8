"""Books that late clients begin with."""

from msgspec import Raw

from tardis_machine.model.records import BookChange, BookLevel, EncodedBookChange
from tardis_machine.sources.live.books import HeldBooks

NOW = "2026-09-01T00:00:05.000Z"


def change(
    bids: dict[float, float],
    asks: dict[float, float],
    *,
    is_snapshot: bool = False,
    symbol: str = "X",
) -> BookChange:
    return BookChange(
        symbol=symbol,
        exchange="bitmex",
        is_snapshot=is_snapshot,
        bids=[BookLevel(*level) for level in bids.items()],
        asks=[BookLevel(*level) for level in asks.items()],
        timestamp="2026-09-01T00:00:01.000Z",
        local_timestamp="2026-09-01T00:00:02.000Z",
    )


def text_change(bids: str, *, is_snapshot: bool = False) -> EncodedBookChange:
    return EncodedBookChange(
        symbol="X",
        exchange="deribit",
        is_snapshot=is_snapshot,
        bid_text=Raw(bids.encode()),
        ask_text=Raw(b"[]"),
        timestamp="2026-09-01T00:00:01.000Z",
        local_timestamp="2026-09-01T00:00:02.000Z",
    )


def test_held_book_is_what_changes_made_of_the_snapshot() -> None:
    books = HeldBooks()
    books.apply([change({10: 1, 9: 2}, {11: 1}, is_snapshot=True)])
    books.apply([change({10: 0, 9.5: 3}, {11: 4, 10.5: 1})])
    [book] = books.snapshots(None, NOW)
    assert book.is_snapshot
    assert [(level.price, level.amount) for level in book.bids] == [(9.5, 3), (9, 2)]
    assert [(level.price, level.amount) for level in book.asks] == [(10.5, 1), (11, 4)]
    assert (book.timestamp, book.local_timestamp) == ("2026-09-01T00:00:01.000Z", NOW)


def test_levels_that_stayed_text_are_held() -> None:
    books = HeldBooks()
    books.apply([text_change('[{"price":10,"amount":1.50}]', is_snapshot=True)])
    books.apply([text_change('[{"price":9,"amount":2}]')])
    [book] = books.snapshots(None, NOW)
    assert [(level.price, level.amount) for level in book.bids] == [(10, 1.5), (9, 2)]


def test_changes_before_the_snapshot_are_not_held() -> None:
    books = HeldBooks()
    books.apply([change({10: 1}, {})])
    assert books.snapshots(None, NOW) == []


def test_new_snapshot_replaces_the_book() -> None:
    books = HeldBooks()
    books.apply([change({10: 1}, {}, is_snapshot=True), change({8: 1}, {}, is_snapshot=True)])
    [book] = books.snapshots(None, NOW)
    assert [level.price for level in book.bids] == [8]


def test_only_the_wanted_books_are_given() -> None:
    books = HeldBooks()
    books.apply([change({1: 1}, {}, is_snapshot=True, symbol=name) for name in ("A", "B", "C")])
    books.drop("B")
    assert [book.symbol for book in books.snapshots({"A", "B"}, NOW)] == ["A"]
