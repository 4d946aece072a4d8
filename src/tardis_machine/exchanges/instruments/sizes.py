"""Worth of one contract where amounts count contracts, and where the exchange publishes it.

Everywhere else amounts are in base, or in quote if the contract is inverse: their size is 1. A size
that is not here, and that differs from contract to contract, is left open.
"""

from collections.abc import Mapping

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of contracts of one kind, in base, or in quote if they are inverse."""

    published: str
    """What tells them: an answer of the exchange, or a message."""
    by_base: Mapping[str, float]
    """By base currency as the exchange writes it."""
    others: float | None = None
    """Of all other contracts; None where they differ."""

    def of(self, base: str) -> float | None:
        """Return the size of contracts on a currency; None: not known by rule."""
        return self.by_base.get(base, self.others)


BINANCE_INVERSE = Sizes(
    published="`contractSize` of GET /dapi/v1/exchangeInfo", by_base={"BTC": 100.0}, others=10.0
)
OKEX_INVERSE = Sizes(
    published="`ctVal` of GET /api/v5/public/instruments", by_base={"BTC": 100.0}, others=10.0
)
OKEX_USDT = Sizes(
    published="`ctVal` of GET /api/v5/public/instruments",
    by_base={"BTC": 0.01, "ETH": 0.1, "LTC": 1.0},
)
HUOBI_INVERSE = Sizes(
    published="`contract_size` of the channel `contract_info`", by_base={"BTC": 100.0}, others=10.0
)
HUOBI_USDT = Sizes(
    published="`contract_size` of GET /linear-swap-api/v1/swap_contract_info",
    by_base={"BTC": 0.001, "ETH": 0.01},
)
GATE_IO_USDT = Sizes(
    published="`quanto_multiplier` of GET /api/v4/futures/usdt/contracts",
    by_base={"BTC": 0.0001, "ETH": 0.01},
)
KUCOIN_USDT = Sizes(
    published="`multiplier` of `contract/details`", by_base={"XBT": 0.001, "ETH": 0.01}
)
