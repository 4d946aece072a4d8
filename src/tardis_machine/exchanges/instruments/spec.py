"""What an instrument is: the currencies, the kind, and what one unit of its amounts is worth."""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What is traded."""

    SPOT = "spot"
    PERPETUAL = "perpetual"
    FUTURE = "future"
    OPTION = "option"


class Instrument(msgspec.Struct, frozen=True, kw_only=True):
    """One instrument of an exchange."""

    base: str
    """What is bought and sold, such as BTC."""
    quote: str
    """What prices are in; of options, what their strike is in."""
    kind: Kind
    is_inverse: bool = False
    """Amounts are worth units of quote, whatever the price."""
    contract_size: float | None = 1.0
    """Worth of an amount of 1, in base, or in quote if inverse; None: not known by rule."""
    expiry_us: int | None = None
    multiplier: int = 1
    """Units of base that a price is for: 1000 for 1000SHIB."""
