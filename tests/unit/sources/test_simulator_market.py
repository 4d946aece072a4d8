from math import isclose
from random import Random

import pytest

from tardis_machine.sources.simulator.clock import Second
from tardis_machine.sources.simulator.deribit.pricing import value_option
from tardis_machine.sources.simulator.deribit.symbols import default_symbols, parse_option, spell
from tardis_machine.sources.simulator.feed import FeedOptions
from tardis_machine.sources.simulator.funding import Funding
from tardis_machine.sources.simulator.market import Market
from tardis_machine.sources.simulator.prices import (
    MAX_TEXTS,
    IndexPath,
    LevelTexts,
    PriceGrid,
    derived_grid,
    start_price,
)
from tardis_machine.sources.simulator.venues import VENUES

DAY_US = 86_400_000_000
MARCH_1_2024 = 19_783
ONE_CHANGE = (1,) * 64


@pytest.mark.parametrize("seed", range(20))
def test_market_stays_sound_while_its_target_jumps(seed: int) -> None:
    rng = Random(seed)
    market = Market(rng, 1_000, 30, (1, 3) * 32)
    for _ in range(300):
        market.aim(rng.randrange(1, 2_000))
        for event in range(8):
            market.take() if event % 3 == 0 else market.change()
            assert market.best_bid < market.best_ask
            assert market.best_bid == max(market.bids) >= 1
            assert market.best_ask == min(market.asks)
        market.trim()


def test_best_levels_are_the_first_of_the_sorted_ones() -> None:
    market = Market(Random(5), 1000, 40, (1, 2) * 32)
    for _ in range(200):
        market.change()
        market.take()
        assert market.top_bids(10) == market.sorted_bids()[:10]
        assert market.top_asks(10) == market.sorted_asks()[:10]
    assert len(market.top_asks(1000)) == len(market.asks)


def test_market_reports_every_change_it_makes() -> None:
    market = Market(Random(1), 1_000, 30, (1, 3) * 32)
    bids, asks = dict(market.bids), dict(market.asks)
    for number in range(3_000):
        market.aim(1_000 + number // 20)
        changes = market.take().changes if number % 4 == 0 else market.change()
        for is_bid, level, lots, lots_before in [*changes, *market.trim()]:
            side = bids if is_bid else asks
            assert side.pop(level, 0) == lots_before
            if lots:
                side[level] = lots

    assert (bids, asks) == (market.bids, market.asks)


@pytest.mark.parametrize("target", [1_100, 900])
def test_market_follows_its_target(target: int) -> None:
    market = Market(Random(1), 1_000, 30, ONE_CHANGE)
    market.aim(target)
    for number in range(400):
        market.take() if number % 4 == 0 else market.change()

    assert market.best_bid - 10 < target < market.best_ask + 10


def test_index_of_a_currency_is_the_same_under_its_other_name() -> None:
    paths = [IndexPath(1, base) for base in ("BTC", "XBT")]
    for _ in range(100):
        for path in paths:
            path.advance()

    assert paths[0].factor == paths[1].factor != 1.0


def test_index_is_calm_and_bursts() -> None:
    path = IndexPath(1, "BTC")
    intensities = set()
    for _ in range(3_600):
        path.advance()
        intensities.add(path.intensity)

    assert len(intensities) == 2
    assert 0.9 < path.factor < 1.1


@pytest.mark.parametrize("grid", [PriceGrid(2, 50), PriceGrid(2, 1, 50), PriceGrid(4, 5, 3)])
def test_price_grid_keeps_order_and_whole_ticks(grid: PriceGrid) -> None:
    units = [grid.units(level) for level in range(1, 2_000)]

    assert units == sorted(set(units))
    assert all(value % grid.tick_units == 0 for value in units)
    assert all(grid.level(grid.price(level) + 1e-9) == level for level in range(1, 2_000))


@pytest.mark.parametrize("price", [61_200, 3.5, 0.12, 0.000_02])
def test_derived_grid_has_fine_levels(price: float) -> None:
    assert derived_grid(price).level(price) >= 10_000 or price < 0.001


@pytest.mark.parametrize(
    ("is_trimmed", "texts"), [(True, ["0.5", "1", "50"]), (False, ["0.50", "1.00", "50.00"])]
)
def test_level_texts_are_plain_decimals(is_trimmed: bool, texts: list[str]) -> None:
    prices = LevelTexts(PriceGrid(2, 50), is_trimmed=is_trimmed)

    assert [prices[level] for level in (1, 2, 100)] == texts


def test_unknown_currency_has_a_stable_price() -> None:
    assert start_price("QUX") == start_price("QUX") > 0
    assert start_price("ETH", "BTC") == start_price("ETH") / start_price("BTC")


def test_funding_is_due_every_eight_hours_from_its_first_hour() -> None:
    funding = Funding(1, "bitmex/XBTUSD", first_hour=4)
    hours = [funding.next_second(hour * 3600) / 3600 for hour in (0, 3.999, 4, 11, 12, 23)]

    assert hours == [4, 4, 12, 12, 20, 28]
    assert funding.rate(0) == funding.rate(4 * 3600 - 1) != funding.rate(4 * 3600)


def test_option_values_keep_put_call_parity() -> None:
    call = value_option(61_000, 60_000, 0.1, is_call=True)
    put = value_option(61_000, 60_000, 0.1, is_call=False)

    assert isclose(call.price - put.price, 1_000)
    assert isclose(call.delta - put.delta, 1)
    assert call.vega == put.vega > 0 > call.theta


def test_expired_option_still_has_a_value() -> None:
    assert value_option(61_000, 60_000, -1.0, is_call=True).price >= 1_000


def test_option_name_is_read_to_its_parts() -> None:
    option = parse_option("MATIC_USDC-9MAR24-1d02-C")

    assert option is not None
    assert (option.underlying, option.strike, option.is_call) == ("MATIC_USDC", 1.02, True)
    assert option.expiry_second == (MARCH_1_2024 + 8) * 86_400 + 8 * 3600


@pytest.mark.parametrize(
    ("typed", "spelled"),
    [
        ("btc-perpetual", "BTC-PERPETUAL"),
        ("btc-29mar24-60000-c", "BTC-29MAR24-60000-C"),
        ("matic_usdc-9mar24-1d02-c", "MATIC_USDC-9MAR24-1d02-C"),
        ("XRP_USDC-9DEC24-0D5-P", "XRP_USDC-9DEC24-0d5-P"),
    ],
)
def test_deribit_symbols_are_spelled_as_the_venue_does(typed: str, spelled: str) -> None:
    assert spell(typed) == spelled


@pytest.mark.parametrize(
    ("day", "expiry"),
    [(MARCH_1_2024, "29MAR24"), (MARCH_1_2024 + 14, "29MAR24"), (MARCH_1_2024 + 15, "26APR24")],
)
def test_default_options_expire_on_a_last_friday_two_weeks_ahead(day: int, expiry: str) -> None:
    assert f"BTC-{expiry}-60000-C" in default_symbols(day * DAY_US)


def test_highest_rate_keeps_times_in_order_and_inside_their_second() -> None:
    options = FeedOptions(seed=1, rate=20_000, start_second=0)
    feed = VENUES["binance-futures"].open_feed("btcusdt", options)

    lines = feed.run_second(Second(0), is_connecting=True)

    times = [line[:28] for line in lines]
    assert len(times) == len(set(times)) > 10_000
    assert times == sorted(times)
    assert {time[:20] for time in times} == {"1970-01-01T00:00:00."}


def test_remembered_texts_are_bounded() -> None:
    texts = LevelTexts(PriceGrid(2, 1), is_trimmed=False)
    for level in range(MAX_TEXTS + 10):
        assert texts[level] == f"{level / 100:.2f}"
    assert len(texts) == 10
