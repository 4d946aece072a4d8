"""The kinds of Deribit instruments: what each adds to book, trades and ticker."""

from typing import ClassVar

from tardis_machine.sources.simulator.deribit.feed import DeribitFeed
from tardis_machine.sources.simulator.deribit.pricing import OptionValue, value_option
from tardis_machine.sources.simulator.deribit.symbols import OptionName, years_until
from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan
from tardis_machine.sources.simulator.funding import Funding

FORWARD_PREMIUM = 1.002
"""How far the future that underlies an option is above the index."""


class FutureFeed(DeribitFeed):
    """Write a perpetual or a dated future."""

    def __init__(self, market_plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(market_plan, options)
        self._funding: Funding | None = None
        if self.symbol.endswith("PERPETUAL"):
            self._funding = Funding(options.seed, f"deribit/{self.symbol}")

    def write_slow_fields(self, mark: float) -> str:
        """Return the ticker fields of this second, with funding for a perpetual."""
        fields = super().write_slow_fields(mark)
        if self._funding is None:
            return fields
        premium = mark / self.index_price - 1
        return (
            f'{fields},"funding_8h":{self._funding.rate(self.clock.index)},'
            f'"current_funding":{premium:.8f},"interest_value":{premium * 8:.8f}'
        )


class OptionFeed(DeribitFeed):
    """Write an option: its book follows the model price, its ticker has greeks."""

    amount_decimals: ClassVar[int] = 1
    amount_units_per_lot: ClassVar[int] = 1

    def __init__(self, market_plan: MarketPlan, options: FeedOptions, option: OptionName) -> None:
        super().__init__(market_plan, options)
        self._option = option
        self._value = self._revalue()

    def _revalue(self) -> OptionValue:
        option = self._option
        years = years_until(option.expiry_second, self.clock.index)
        return value_option(self._forward(), option.strike, years, is_call=option.is_call)

    def _forward(self) -> float:
        return self.index_price * FORWARD_PREMIUM

    def _price_unit(self) -> float:
        return 1.0 if self._option.is_linear else self._forward()

    def reprice(self) -> float:
        """Value the option anew; its mark price is the model price as the venue quotes it."""
        self._value = self._revalue()
        mark = self._value.price / self._price_unit()
        self.slow_fields = self.write_slow_fields(mark)
        return mark

    def fair_price(self) -> float:
        """Return the price the market is drawn to."""
        return self.mark_price

    def float_text(self, price: float) -> str:
        """Write a price that is not on the grid."""
        return f"{price:.6f}"

    def liquidation_field(self) -> str:
        """Return nothing: only futures are liquidated here."""
        return ""

    def trade_fields(self) -> str:
        """Return mark price and volatility."""
        return f'"mark_price":{self.mark_text},"iv":{self._value.volatility * 100:.2f},'

    def write_slow_fields(self, mark: float) -> str:
        """Return the ticker fields of this second, with the model's volatility and greeks."""
        value = self._value
        underlying = f"{self._option.underlying}-{self._option.expiry_text}"
        return (
            f'{super().write_slow_fields(mark)},"underlying_price":{self._forward():.4f},'
            f'"underlying_index":"{underlying}","mark_iv":{value.volatility * 100:.2f},'
            f'"interest_rate":0.0,"greeks":{{"vega":{value.vega:.5f},"theta":{value.theta:.5f},'
            f'"rho":{value.rho:.5f},"gamma":{value.gamma:.5f},"delta":{value.delta:.5f}}}'
        )

    def quoted_fields(self) -> str:
        """Return the volatilities that the best bid and ask imply."""
        return (
            f'"bid_iv":{self._quoted_volatility(self.market.best_bid):.2f},'
            f'"ask_iv":{self._quoted_volatility(self.market.best_ask):.2f},'
        )

    def _quoted_volatility(self, level: int) -> float:
        """Return the volatility in percent at which the option would be worth a level's price."""
        excess = self.grid.price(level) * self._price_unit() - self._value.price
        percent = self._value.volatility * 100 + excess / max(self._value.vega, 0.01)
        return max(0.0, min(500.0, percent))
