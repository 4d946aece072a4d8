"""Bars of trades: by time, by number of trades, by volume.

A time bar is closed by the first trade of a later interval (by exchange time), the others by the
trade that fills them. A trade is never split, and no bar is empty.
"""

import math
from collections.abc import Sequence

from tardis_machine.computed.intervals import Intervals, ms_part
from tardis_machine.model.data_types import TradeBarSpec
from tardis_machine.model.records import Record, Trade, TradeBar


class TradeBars:
    """Every requested bar of one symbol."""

    def __init__(self, specs: Sequence[TradeBarSpec]) -> None:
        self._builders = [(_TimeBars if spec.kind == "time" else _SizeBars)(spec) for spec in specs]

    def apply(self, trade: Trade, out: list[Record]) -> None:
        """Add a trade and append the bars it closes, in the order of the specs."""
        for builder in self._builders:
            builder.apply(trade, out)

    def close_due(self, timestamp: str, local_timestamp: str, out: list[Record]) -> None:
        """Append the bars of intervals that have ended at a time, in the order of the specs."""
        for builder in self._builders:
            builder.close_due(timestamp, local_timestamp, out)


class _OpenBar:
    """The trades of a bar so far."""

    __slots__ = (
        "buy_volume",
        "close",
        "close_timestamp",
        "first",
        "high",
        "low",
        "open",
        "sell_volume",
        "trades",
        "volume",
        "vwap",
    )

    def __init__(self, first: Trade) -> None:
        self.first = first
        self.open = self.high = self.low = self.close = first.price
        self.close_timestamp = first.timestamp
        self.volume = self.buy_volume = self.sell_volume = self.vwap = 0.0
        self.trades = 0
        self.add(first)

    def add(self, trade: Trade) -> None:
        """Count a trade; one older than the last in order does not become the close."""
        price, amount = trade.price, trade.amount
        if price > self.high:
            self.high = price
        if price < self.low:
            self.low = price
        if ms_part(trade.timestamp) >= ms_part(self.close_timestamp):
            self.close = price
            self.close_timestamp = trade.timestamp
        if trade.side == "buy":
            self.buy_volume += amount
        elif trade.side == "sell":
            self.sell_volume += amount
        turnover = self.vwap * self.volume + price * amount
        self.volume += amount
        self.vwap = turnover / self.volume if self.volume != 0 else math.nan
        self.trades += 1

    def closed(self, spec: TradeBarSpec, local_timestamp: str, timestamp: str) -> TradeBar:
        """Return the bar as a record."""
        return TradeBar(
            symbol=self.first.symbol,
            exchange=self.first.exchange,
            name=spec.name,
            interval=spec.interval,
            kind=spec.kind,
            open=self.open,
            high=self.high,
            low=self.low,
            close=self.close,
            volume=self.volume,
            buy_volume=self.buy_volume,
            sell_volume=self.sell_volume,
            trades=self.trades,
            vwap=self.vwap if math.isfinite(self.vwap) else None,
            open_timestamp=self.first.timestamp,
            close_timestamp=self.close_timestamp,
            local_timestamp=local_timestamp,
            timestamp=timestamp,
        )


class _TimeBars:
    """Bars of one interval of exchange time."""

    def __init__(self, spec: TradeBarSpec) -> None:
        self._spec = spec
        self._intervals = Intervals(spec.interval)
        self._number = 0
        self._bar: _OpenBar | None = None

    def apply(self, trade: Trade, out: list[Record]) -> None:
        """Close the bar when the trade is of a later interval, then add the trade."""
        number = self._intervals.number_of(trade.timestamp)
        if self._bar is not None and number > self._number:
            end = self._intervals.end_text(self._number)
            out.append(self._bar.closed(self._spec, trade.local_timestamp, end))
            self._bar = None
        if self._bar is None:
            self._bar = _OpenBar(trade)
            self._number = number
        else:
            self._bar.add(trade)

    def close_due(self, timestamp: str, local_timestamp: str, out: list[Record]) -> None:
        """Close the bar when its interval has ended."""
        if self._bar is not None and self._intervals.number_of(timestamp) > self._number:
            end = self._intervals.end_text(self._number)
            out.append(self._bar.closed(self._spec, local_timestamp, end))
            self._bar = None


class _SizeBars:
    """Bars of a number of trades or of a volume."""

    def __init__(self, spec: TradeBarSpec) -> None:
        self._spec = spec
        self._counts_trades = spec.kind == "tick"
        self._bar: _OpenBar | None = None

    def apply(self, trade: Trade, out: list[Record]) -> None:
        """Add the trade, then close the bar when that filled it."""
        bar = self._bar
        if bar is None:
            bar = self._bar = _OpenBar(trade)
        else:
            bar.add(trade)
        size = bar.trades if self._counts_trades else bar.volume
        if size >= self._spec.interval:
            out.append(bar.closed(self._spec, trade.local_timestamp, bar.close_timestamp))
            self._bar = None

    def close_due(self, timestamp: str, local_timestamp: str, out: list[Record]) -> None:
        """Do nothing: no time fills a bar."""
