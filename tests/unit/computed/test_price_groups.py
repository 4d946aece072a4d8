import msgspec

from tardis_machine.computed.books import new_side
from tardis_machine.computed.grouping import GroupedPrices
from tardis_machine.computed.order_book import BookSide
from tardis_machine.computed.price_groups import PriceGroups
from tests.unit.computed.builders import levels


def pairs(groups: PriceGroups) -> list[tuple[float, float]]:
    decoded = msgspec.json.decode(b"[%b]" % groups.text())
    return [(level["price"], level["amount"]) for level in decoded]


def grouped(*loaded, depth: int = 2) -> tuple[BookSide, PriceGroups]:
    side = new_side(is_bid=True)
    side.load(levels(loaded))
    groups = PriceGroups(side, GroupedPrices(10, is_bid=True), depth)
    assert groups.follow()
    return side, groups


def test_levels_of_a_group_are_summed_until_enough_groups_are_full() -> None:
    _, groups = grouped((39, 1), (32, 2), (29, 4), (23, 8), (15, 16))
    assert pairs(groups) == [(30, 3), (20, 12)]


def test_short_side_gives_fewer_groups() -> None:
    assert pairs(grouped((19, 1))[1]) == [(10, 1)]
    assert pairs(grouped()[1]) == []


def test_change_of_one_group_leaves_the_others() -> None:
    side, groups = grouped((39, 1), (32, 2), (29, 4), (23, 8))
    side.apply(levels([(32, 5)]))
    assert groups.follow()
    assert pairs(groups) == [(30, 6), (20, 12)]


def test_removed_group_makes_room_for_the_next_one() -> None:
    side, groups = grouped((39, 1), (29, 4), (15, 16))
    side.apply(levels([(39, 0)]))
    assert groups.follow()
    assert pairs(groups) == [(20, 4), (10, 16)]


def test_level_right_behind_joins_the_last_group() -> None:
    side, groups = grouped((39, 1), (29, 4), (15, 16))
    side.apply(levels([(21, 2)]))
    assert groups.follow()
    assert pairs(groups) == [(30, 1), (20, 6)]


def test_change_behind_all_groups_is_not_looked_at() -> None:
    side, groups = grouped((39, 1), (29, 4), (15, 16), (5, 32))
    side.apply(levels([(5, 1)]))
    assert not groups.follow()


def test_sum_is_that_of_adding_best_first() -> None:
    side, groups = grouped((39, 0.1), (38, 0.2), (37, 0.3))
    side.apply(levels([(38, 0.7)]))
    side.apply(levels([(38, 0.2)]))
    groups.rebuild()
    assert pairs(groups) == [(30, 0.1 + 0.2 + 0.3)]
