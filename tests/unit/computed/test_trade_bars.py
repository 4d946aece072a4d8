import msgspec
import pytest

from tardis_machine.model.records import TradeBar
from tests.unit.computed.builders import at, local, trade, triggered


def bars(data_type, trades):
    """Return the bars that the trades of one symbol close, in order."""
    return [bar for result in triggered([data_type], trades) for bar in result]


def test_time_bar_is_closed_by_a_trade_of_a_later_interval() -> None:
    [bar] = bars(
        "trade_bar_1m",
        [
            trade(1000, 2000, 0),
            trade(1005, 200, 1_000, "sell"),
            trade(1015, 2000, 2_000),
            trade(900, 1, 240_120),
        ],
    )
    assert bar == TradeBar(
        symbol="XBTUSD",
        exchange="bitmex",
        name="trade_bar_1m",
        interval=60_000,
        kind="time",
        open=1000,
        high=1015,
        low=1000,
        close=1015,
        volume=4200,
        buy_volume=4000,
        sell_volume=200,
        trades=3,
        vwap=1007.3809523809524,
        open_timestamp=at(0),
        close_timestamp=at(2_000),
        local_timestamp=local(240_120),
        timestamp=at(60_000),
    )


def test_late_trade_counts_but_does_not_close_the_bar() -> None:
    late = [trade(0.3394, 1273, 988), trade(0.3387, 65, 981), trade(0.3390, 1, 2_981)]
    [bar] = bars("trade_bar_1s", late)
    assert (bar.open, bar.low, bar.close, bar.volume) == (0.3394, 0.3387, 0.3394, 1338)
    assert bar.close_timestamp == at(988)
    assert bar.vwap == 0.3393659940209267


def test_trade_of_an_earlier_interval_stays_in_the_open_bar() -> None:
    assert bars("trade_bar_1s", [trade(1, 1, 5_000), trade(2, 1, 3_000), trade(3, 1, 5_999)]) == []


def test_trades_within_a_millisecond_are_in_order() -> None:
    first = msgspec.structs.replace(trade(1, 1), timestamp="2024-03-01T00:00:00.000900Z")
    second = msgspec.structs.replace(trade(2, 1), timestamp="2024-03-01T00:00:00.000100Z")
    [bar] = bars("trade_bar_2ticks", [first, second])
    assert bar.close == 2
    assert bar.timestamp == second.timestamp


def test_tick_bar_is_closed_by_the_trade_that_fills_it() -> None:
    first, second = bars("trade_bar_2ticks", [trade(price, 1, price) for price in range(1, 6)])
    assert (first.open, first.close, first.trades, first.timestamp) == (1, 2, 2, at(2))
    assert (second.open, second.close, second.local_timestamp) == (3, 4, local(4))


def test_volume_bar_takes_the_whole_trade_that_fills_it() -> None:
    [bar] = bars("trade_bar_10vol", [trade(1, 6), trade(2, 7), trade(3, 5)])
    assert (bar.volume, bar.trades, bar.interval, bar.kind) == (13, 2, 10, "volume")


def test_unknown_side_counts_in_neither_volume() -> None:
    [bar] = bars("trade_bar_1ticks", [trade(1, 5, 0, "unknown")])
    assert (bar.volume, bar.buy_volume, bar.sell_volume) == (5, 0, 0)


def test_bar_without_volume_has_no_vwap() -> None:
    first, second = bars("trade_bar_1ticks", [trade(1, 0), trade(1, 2)])
    assert first.vwap is None
    assert second.vwap == 1


@pytest.mark.parametrize("data_type", ["trade_bar_ms", "trade_bar_0s"])
def test_time_bar_without_length_is_never_closed(data_type) -> None:
    assert bars(data_type, [trade(1, 1, ms) for ms in (0, 10**6, 10**9)]) == []


def test_bars_come_in_the_order_of_the_request() -> None:
    names = ["trade_bar_1m", "trade_bar_2ticks", "trade_bar_2000vol"]
    trades = [trade(1000, 200, 132), trade(1000, 2000, 60_000)]
    assert [bar.name for bar in triggered(names, trades)[1]] == names
