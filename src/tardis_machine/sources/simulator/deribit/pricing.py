"""Prices and greeks of European options, by Black and Scholes without interest."""

import math
from dataclasses import dataclass

SECONDS_PER_YEAR = 365 * 86_400
_SHORTEST_YEARS = 3600 / SECONDS_PER_YEAR
_SMILE_REACH = 3.0


@dataclass(frozen=True)
class OptionValue:
    """Value of an option in the currency of its strike, and what moves it."""

    price: float
    volatility: float
    delta: float
    gamma: float
    vega: float
    theta: float
    rho: float


def smile_volatility(forward: float, strike: float, years: float) -> float:
    """Return a volatility that grows away from the money, as markets quote it."""
    distance = math.log(strike / forward) / math.sqrt(max(years, _SHORTEST_YEARS))
    distance = max(-_SMILE_REACH, min(_SMILE_REACH, distance))
    return 0.62 - 0.04 * distance + 0.12 * distance * distance


def value_option(forward: float, strike: float, years: float, *, is_call: bool) -> OptionValue:
    """Value an option with the smile's volatility; an expired one counts as an hour before."""
    years = max(years, _SHORTEST_YEARS)
    volatility = smile_volatility(forward, strike, years)
    deviation = volatility * math.sqrt(years)
    d1 = math.log(forward / strike) / deviation + deviation / 2
    d2 = d1 - deviation
    density = math.exp(-d1 * d1 / 2) / math.sqrt(2 * math.pi)
    sign = 1.0 if is_call else -1.0
    in_the_money = _normal(sign * d2)
    return OptionValue(
        price=sign * (forward * _normal(sign * d1) - strike * in_the_money),
        volatility=volatility,
        delta=sign * _normal(sign * d1),
        gamma=density / (forward * deviation),
        vega=forward * density * math.sqrt(years) / 100,
        theta=-forward * density * volatility / (2 * math.sqrt(years)) / 365,
        rho=sign * strike * years * in_the_money / 100,
    )


def _normal(x: float) -> float:
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2)))
