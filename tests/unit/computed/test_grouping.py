import pytest

from tardis_machine.computed.grouping import GroupedPrices, decimal_places


@pytest.mark.parametrize(
    ("step", "places"),
    [(1, 0), (25, 0), (0.5, 1), (12.5, 1), (0.25, 2), (1e-7, 7), (1e-10, 0), (float("inf"), 0)],
)
def test_step_has_as_many_places_as_written(step, places) -> None:
    assert decimal_places(step) == places


@pytest.mark.parametrize(
    ("price", "step", "bid", "ask"),
    [
        (10.9, 0.5, 10.5, 11.0),
        (11.1, 0.5, 11.0, 11.5),
        (7633.5, 10, 7630, 7640),
        (7640, 10, 7640, 7640),
        (1.15, 0.05, 1.1, 1.15),
    ],
)
def test_bids_round_down_and_asks_up(price, step, bid, ask) -> None:
    assert GroupedPrices(step, is_bid=True)[price] == bid
    assert GroupedPrices(step, is_bid=False)[price] == ask


def test_step_of_zero_leaves_prices_alone() -> None:
    assert GroupedPrices(0, is_bid=True)[10.9] == 10.9


def test_known_prices_stay_bounded() -> None:
    prices = GroupedPrices(10, is_bid=True)
    for number in range(40_000):
        assert prices[number + 0.5] == number // 10 * 10
    assert len(prices) < 20_000
