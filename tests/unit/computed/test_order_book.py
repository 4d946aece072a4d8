from tardis_machine.computed.books import new_book, new_side
from tardis_machine.computed.order_book import UNCHANGED, BookSide, CrossedRemoval, OrderBook
from tardis_machine.model.records import BookLevel
from tests.unit.computed.builders import change, levels, pairs, snapshot


def book_of(*changes, **options) -> OrderBook:
    book = new_book(**options)
    for each in changes:
        book.apply(each)
    return book


def test_change_before_the_first_snapshot_is_ignored() -> None:
    book = book_of(change([(99, 1)], [(101, 1)]))
    assert book.bids.best is None
    assert book.asks.best is None
    assert book.bids.changed_depth == UNCHANGED


def test_sides_iterate_best_first() -> None:
    book = book_of(snapshot([(98, 1), (99, 2), (97, 3)], [(102, 1), (101, 2), (103, 3)]))
    assert pairs(book.bids) == [(99, 2), (98, 1), (97, 3)]
    assert pairs(book.asks) == [(101, 2), (102, 1), (103, 3)]


def test_snapshot_replaces_all_levels() -> None:
    book = book_of(snapshot([(99, 1)], [(101, 1)]), snapshot([(90, 1)], [(91, 1)]))
    assert pairs(book.bids) == [(90, 1)]
    assert pairs(book.asks) == [(91, 1)]


def test_snapshot_with_repeated_and_zero_levels_is_applied_in_order() -> None:
    book = book_of(snapshot([(99, 1), (98, 5), (99, 2), (98, 0), (97, 0)], []))
    assert pairs(book.bids) == [(99, 2)]


def test_zero_amount_removes_and_unknown_price_is_ignored() -> None:
    book = book_of(snapshot([(99, 1), (98, 2)], []), change([(99, 0), (97, 0)]))
    assert pairs(book.bids) == [(98, 2)]


def test_changed_depth_is_the_smallest_that_differs() -> None:
    book = book_of(snapshot([(99, 1), (98, 2), (97, 3)], [(101, 1), (102, 2)]))
    book.apply(change([(97, 4), (98, 5)], [(103, 1)]))
    assert (book.bids.changed_depth, book.asks.changed_depth) == (1, 2)


def test_changed_depth_of_an_insert_is_where_it_stands() -> None:
    book = book_of(snapshot([(99, 1), (97, 3)], []), change([(98, 1)]))
    assert book.bids.changed_depth == 1


def test_equal_amount_changes_nothing() -> None:
    book = book_of(snapshot([(99, 1)], [(101, 1)]), change([(99, 1)]))
    assert book.bids.changed_depth == UNCHANGED
    assert book.asks.changed_depth == UNCHANGED


def test_crossed_levels_stay_when_not_asked_to_remove_them() -> None:
    book = book_of(snapshot([(100, 1)], [(101, 1)]), change([], [(98, 5)]))
    assert pairs(book.bids) == [(100, 1)]
    assert pairs(book.asks) == [(98, 5), (101, 1)]


def test_new_best_ask_removes_crossed_bids() -> None:
    book = book_of(
        snapshot([(100, 1), (99, 2)], [(101, 3)]),
        change([], [(98, 5)]),
        removes_crossed_levels=True,
    )
    assert pairs(book.bids) == []
    assert pairs(book.asks) == [(98, 5), (101, 3)]
    assert book.bids.changed_depth == 0


def test_new_best_bid_removes_crossed_asks() -> None:
    book = book_of(
        snapshot([(100, 1)], [(101, 3), (102, 4), (104, 5)]),
        change([(103, 5)]),
        removes_crossed_levels=True,
    )
    assert pairs(book.bids) == [(103, 5), (100, 1)]
    assert pairs(book.asks) == [(104, 5)]


def test_equal_best_prices_count_as_crossed() -> None:
    book = book_of(snapshot([(100, 1)], [(100, 1), (101, 1)]), removes_crossed_levels=True)
    assert pairs(book.asks) == [(100, 1), (101, 1)]
    assert pairs(book.bids) == []


def test_removals_are_reported_one_by_one() -> None:
    removals: list[CrossedRemoval] = []
    book_of(
        snapshot([(100, 1), (99, 2)], [(101, 3)]),
        change([], [(99, 5)]),
        removes_crossed_levels=True,
        on_removal=removals.append,
    )
    ask = BookLevel(99.0, 5.0)
    assert removals == [
        CrossedRemoval(BookLevel(100.0, 1.0), BookLevel(99.0, 2.0), ask, ask),
        CrossedRemoval(BookLevel(99.0, 2.0), None, ask, ask),
    ]


def test_top_holds_at_most_the_asked_depth() -> None:
    book = book_of(snapshot([(99, 1), (98, 2), (97, 3)], []))
    assert pairs(book.bids.top(2)) == [(99, 1), (98, 2)]
    assert pairs(book.bids.top(9)) == [(99, 1), (98, 2), (97, 3)]
    assert book.asks.top(3) == []


def test_text_is_the_same_with_and_without_kept_texts() -> None:
    kept, plain = new_side(is_bid=False, text_depth=3), new_side(is_bid=False)
    for side in (kept, plain):
        side.load(levels([(101, 1), (102, 2), (103, 3), (104, 4), (105, 5)]))
    assert kept.text(3) == plain.text(3)
    for changes in ([(102, 0)], [(100, 1), (100.5, 2)], [(101, 9)], [(100, 0), (101, 0)]):
        kept.apply(levels(changes))
        plain.apply(levels(changes))
        assert kept.text(3) == plain.text(3)
        assert kept.text(1) == plain.text(1)
    kept.remove_best()
    plain.remove_best()
    assert kept.text(3) == plain.text(3)


def test_text_deeper_than_the_kept_texts_is_complete() -> None:
    side = new_side(is_bid=True, text_depth=1)
    side.load(levels([(99, 1), (98, 2)]))
    assert side.text(1) == b'{"price":99.0,"amount":1.0}'
    assert side.text(2) == b'{"price":99.0,"amount":1.0},{"price":98.0,"amount":2.0}'


def test_kept_texts_stay_bounded_while_levels_are_inserted() -> None:
    side = BookSide(is_bid=True, text_depth=3)
    side.load(levels([(1, 1), (2, 1), (3, 1)]))
    for price in range(4, 200):
        side.apply(levels([(price, 1)]))
        side.text(1)
        side.text(3)
    assert len(side._texts) == 3
