"""Bars against sums over the trades they hold."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tardis_machine.computed.pipeline import Computables
from tardis_machine.model.data_types import TradeBarSpec
from tardis_machine.model.records import Trade, TradeBar
from tardis_machine.model.time import ms_text, us_text

START_MS = 1_709_251_200_000

specs = st.one_of(
    st.builds(TradeBarSpec, st.just("time"), st.sampled_from([100, 1000, 60_000])),
    st.builds(TradeBarSpec, st.just("tick"), st.integers(1, 7)),
    st.builds(TradeBarSpec, st.just("volume"), st.sampled_from([0.5, 10, 25])),
)
trade_steps = st.lists(
    st.tuples(
        st.sampled_from([0, 5, 90, 700, 61_000, -30]),
        st.integers(1, 400).map(lambda ticks: ticks / 4),
        st.sampled_from([0.25, 1.0, 3.5, 20.0]),
        st.sampled_from(["buy", "sell", "unknown"]),
    ),
    max_size=60,
)


def trades_of(steps) -> list[Trade]:
    trades = []
    time_ms = START_MS
    for step_ms, price, amount, side in steps:
        time_ms += step_ms
        trades.append(
            Trade(
                symbol="XBTUSD",
                exchange="bitmex",
                price=price,
                amount=amount,
                side=side,
                timestamp=ms_text(time_ms),
                local_timestamp=us_text(time_ms * 1000),
            )
        )
    return trades


@given(trade_steps, specs)
def test_bars_hold_consecutive_trades_and_their_sums(steps, spec) -> None:
    trades = trades_of(steps)
    out = Computables([spec]).apply(trades)
    bars = [record for record in out if isinstance(record, TradeBar)]
    held = 0
    for bar in bars:
        check(bar, trades[held : held + bar.trades], spec)
        held += bar.trades
    assert held <= len(trades)
    if bars and spec.kind != "time":
        assert bars[-1].local_timestamp == trades[held - 1].local_timestamp


def check(bar: TradeBar, trades: list[Trade], spec: TradeBarSpec) -> None:
    prices = [trade.price for trade in trades]
    volume = math.fsum(trade.amount for trade in trades)
    assert (bar.open, bar.high, bar.low) == (prices[0], max(prices), min(prices))
    assert bar.close == max(reversed(trades), key=lambda trade: trade.timestamp).price
    assert bar.volume == volume
    assert bar.buy_volume + bar.sell_volume + unknown_volume(trades) == volume
    assert bar.vwap == pytest.approx(
        math.fsum(trade.price * trade.amount for trade in trades) / volume
    )
    assert bar.open_timestamp == trades[0].timestamp
    if spec.kind == "volume":
        assert volume - trades[-1].amount < spec.interval <= volume
    elif spec.kind == "tick":
        assert bar.trades == spec.interval


def unknown_volume(trades: list[Trade]) -> float:
    return math.fsum(trade.amount for trade in trades if trade.side == "unknown")
