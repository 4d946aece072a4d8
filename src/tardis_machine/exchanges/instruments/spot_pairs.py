"""Rules for symbols that are two currencies, without a separator or with the quote first."""

from collections.abc import Callable

from tardis_machine.exchanges.instruments.spec import Instrument, Kind
from tardis_machine.exchanges.instruments.symbols import pair, split

_FIAT = ("USD", "EUR", "GBP", "BRL", "TRY", "PLN", "SGD", "AUD", "JPY")
_COINS = ("USDT", "USDC", "USDE", "USD1", "DAI", "PYUSD", "BTC", "ETH")


def joined_pair(
    *more_quotes: str, perpetual: str | None = None
) -> Callable[[str], Instrument | None]:
    """Build the rule of an exchange that writes `BTCUSDT`.

    Args:
        more_quotes: Currencies of the exchange that others do not price in.
        perpetual: What the symbols of its perpetual contracts end with.
    """
    quotes = (*_FIAT, *_COINS, *more_quotes)

    def rule(symbol: str) -> Instrument | None:
        name = symbol.upper()
        is_perpetual = perpetual is not None and name.endswith(perpetual)
        found = split(name.removesuffix(perpetual or ""), quotes)
        kind = Kind.PERPETUAL if is_perpetual else Kind.SPOT
        return None if found is None else pair(*found, kind)

    return rule


def quote_first(symbol: str) -> Instrument | None:
    """Read `KRW-BTC`, the market of BTC in KRW."""
    quote, _, base = symbol.upper().partition("-")
    return pair(base, quote, Kind.SPOT) if base else None
