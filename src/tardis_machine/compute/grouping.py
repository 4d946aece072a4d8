"""Price grouping: levels rounded to multiples of a step and summed."""

import math
from collections.abc import Iterable

from tardis_machine.model.records import BookLevel

_REMEMBERED_PRICES = 16_384


def decimal_places(number: float) -> int:
    """Count the decimals of a grouping step; what is below 1e-10 counts as noise."""
    if not math.isfinite(number):
        return 0
    places = 0
    while abs(round(number * 10**places) - number * 10**places) > 1e-10:
        places += 1
    return places


class PriceGroups:
    """Sums the levels of one side by price step: bids are rounded down, asks up."""

    def __init__(self, step: float, *, is_bid: bool) -> None:
        self._scale = float(10 ** decimal_places(step))
        self._step = step
        self._is_bid = is_bid
        # The same prices come again and again; rounding one costs five times a look-up.
        self._grouped_prices: dict[float, float] = {}

    def top(self, levels: Iterable[BookLevel], depth: int) -> tuple[list[BookLevel], int]:
        """Return at most `depth` groups of levels, best first, and how many levels are in them."""
        prices: list[float] = []
        amounts: list[float] = []
        read = 0
        for level in levels:
            price = self._grouped_prices.get(level.price)
            if price is None:
                price = self._remember(level.price)
            if prices and prices[-1] == price:
                amounts[-1] += level.amount
            elif len(prices) == depth:
                break
            else:
                prices.append(price)
                amounts.append(level.amount)
            read += 1
        return list(map(BookLevel, prices, amounts)), read

    def _remember(self, price: float) -> float:
        if len(self._grouped_prices) >= _REMEMBERED_PRICES:
            self._grouped_prices.clear()
        grouped = self._grouped_prices[price] = self.grouped_price(price)
        return grouped

    def grouped_price(self, price: float) -> float:
        """Round a price to a multiple of the step.

        The order of operations is part of the contract: clients compare these digits with those
        of other servers. Scaling by a power of ten is not exact, so some prices that lie on the
        grid move to the next group below.
        """
        if self._step == 0:
            return price
        scaled, step = price * self._scale, self._step * self._scale
        rest = math.fmod(scaled, step) / self._scale
        up = step if rest > 0 and not self._is_bid else 0
        return (scaled - rest * self._scale + up) / self._scale
