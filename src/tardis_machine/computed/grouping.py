"""Price grouping: prices rounded to multiples of a step."""

import math

_MAX_KNOWN_PRICES = 16_384


def decimal_places(number: float) -> int:
    """Count the decimals of a grouping step; what is below 1e-10 counts as noise."""
    if not math.isfinite(number):
        return 0
    places = 0
    while abs(round(number * 10**places) - number * 10**places) > 1e-10:
        places += 1
    return places


class GroupedPrices(dict[float, float]):
    """Prices rounded to multiples of a step: those of bids down, those of asks up.

    The same prices come again and again, and rounding one costs several look-ups.
    """

    def __init__(self, step: float, *, is_bid: bool) -> None:
        super().__init__()
        self._step = step
        self._scale = float(10 ** decimal_places(step))
        self._is_bid = is_bid

    def __missing__(self, price: float) -> float:
        if len(self) >= _MAX_KNOWN_PRICES:
            self.clear()
        grouped = self[price] = self._rounded(price)
        return grouped

    def _rounded(self, price: float) -> float:
        """Round one price.

        The order of operations is part of the contract: clients compare these digits with those
        of other servers. Scaling by a power of ten is not exact, so some bids that lie on the grid
        move to the group below.
        """
        if self._step == 0:
            return price
        scaled, step = price * self._scale, self._step * self._scale
        rest = math.fmod(scaled, step) / self._scale
        up = step if rest > 0 and not self._is_bid else 0.0
        return (scaled - rest * self._scale + up) / self._scale
