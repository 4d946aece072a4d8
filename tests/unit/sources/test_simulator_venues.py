"""What consumers rely on: the shapes of each venue, and books that can be rebuilt."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from tardis_machine.model.time import SECOND_US, parse_us
from tardis_machine.sources.simulator import SimulatorSettings
from tests.unit.sources.simulated_books import (
    Book,
    Reset,
    Snapshot,
    Trade,
    events_of,
    lines_of,
    messages_of,
    rebuild,
)

EXCHANGES = ("bitmex", "binance-futures", "deribit", "coinbase")


@pytest.mark.parametrize("exchange", [*EXCHANGES, "binance"])
@pytest.mark.parametrize("rate", [2, 60])
def test_rebuilt_books_never_cross_and_trades_take_the_best_level(
    exchange: str, rate: float
) -> None:
    kinds: Counter[type] = Counter()

    for event, book in rebuild(SimulatorSettings(minutes=2, rate=rate, with_gaps=True), exchange):
        assert not book.is_crossed()
        kinds[type(event)] += 1

    assert kinds[Trade] > 5
    assert kinds[list] > kinds[Trade]


@pytest.mark.parametrize("exchange", [*EXCHANGES, "binance"])
def test_every_book_is_sent_again_after_a_gap(exchange: str) -> None:
    settings = SimulatorSettings(minutes=4, rate=10, with_gaps=True)
    symbols: list[set[str]] = [set()]

    for event in events_of(settings, exchange):
        if isinstance(event, Reset):
            symbols.append(set())
        elif isinstance(event, Snapshot):
            symbols[-1].add(event.symbol)

    assert len(symbols) == 3
    assert symbols[0] == symbols[1] == symbols[2]


def test_crossed_books_appear_when_asked_for() -> None:
    books: dict[str, Book] = {}
    crossings = 0
    for event in events_of(SimulatorSettings(minutes=1, rate=100, crossed=True), "coinbase"):
        if isinstance(event, Snapshot):
            books[event.symbol] = Book(event)
        elif isinstance(event, list):
            book = books[event[0].symbol]
            for _, is_bid, price, amount in event:
                (book.bids if is_bid else book.asks)[price] = amount
            for side in (book.bids, book.asks):
                for price in [price for price, amount in side.items() if not amount]:
                    del side[price]
            crossings += book.is_crossed()

    assert crossings > 0


@pytest.mark.parametrize(
    ("exchange", "symbol"),
    [
        ("bitmex", "DOGEUSD"),
        ("bitmex", "XBTM24"),
        ("binance-futures", "shibusdt"),
        ("binance-futures", "btcusdt_240628"),
        ("deribit", "BTC-29MAR24"),
        ("deribit", "ETH-PERPETUAL"),
        ("deribit", "MATIC_USDC-9MAR24-1d02-C"),
        ("deribit", "BTC-29MAR24-300000-C"),
        ("deribit", "BTC-1JAN20-10000-P"),
        ("deribit", "BTC-32XYZ24-1-C"),
        ("coinbase", "ETH-BTC"),
        ("coinbase", "SHIB-USD"),
    ],
)
def test_any_symbol_has_a_sound_book(exchange: str, symbol: str) -> None:
    settings = SimulatorSettings(minutes=2, rate=40, symbols=(symbol,))

    seen = set()
    for event, book in rebuild(settings, exchange):
        assert not book.is_crossed()
        assert min(book.bids) > 0
        seen |= {event.symbol} if isinstance(event, Snapshot | Trade) else set()

    assert seen == {symbol}


def tables(settings: SimulatorSettings) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for message in messages_of(settings, "bitmex"):
        found.setdefault((message["table"], message["action"]), []).append(message)
    return found


def test_bitmex_sends_each_table_with_its_actions() -> None:
    found = tables(SimulatorSettings(minutes=1, rate=200))

    assert found.keys() == {
        ("instrument", "partial"),
        ("instrument", "update"),
        ("trade", "partial"),
        ("trade", "insert"),
        ("orderBookL2", "partial"),
        ("orderBookL2", "insert"),
        ("orderBookL2", "update"),
        ("orderBookL2", "delete"),
        ("quote", "partial"),
        ("quote", "insert"),
        ("liquidation", "partial"),
        ("liquidation", "insert"),
        ("liquidation", "delete"),
    }


def test_bitmex_book_items_carry_ids_times_and_only_new_levels_a_price() -> None:
    found = tables(SimulatorSettings(minutes=1, rate=100))

    for action, has_price in (("partial", True), ("insert", True), ("update", False)):
        items = [item for message in found["orderBookL2", action] for item in message["data"]]
        assert all(("price" in item) == has_price for item in items)
        assert all({"symbol", "id", "side", "size", "timestamp"} <= item.keys() for item in items)


def test_bitmex_level_ids_of_symbols_never_meet() -> None:
    owners: dict[int, str] = {}
    settings = SimulatorSettings(minutes=1, rate=50, symbols=("XBTUSD", "ETHUSD", "FOOUSD"))
    for messages in tables(settings).values():
        for item in (item for message in messages for item in message["data"] if "id" in item):
            assert owners.setdefault(item["id"], item["symbol"]) == item["symbol"]


def test_bitmex_liquidation_is_followed_by_its_trade_and_its_removal() -> None:
    messages = messages_of(SimulatorSettings(minutes=1, rate=200, symbols=("XBTUSD",)), "bitmex")
    kinds = [(message["table"], message["action"]) for message in messages]
    starts = [number for number, kind in enumerate(kinds) if kind == ("liquidation", "insert")]
    assert starts

    for number in starts:
        (order,) = messages[number]["data"]
        trades = messages[number + 1]["data"]
        assert kinds[number + 1] == ("trade", "insert")
        assert {trade["side"] for trade in trades} == {order["side"]}
        assert sum(trade["size"] for trade in trades) == order["leavesQty"]
        removal = kinds.index(("liquidation", "delete"), number)
        assert messages[removal]["data"][0]["orderID"] == order["orderID"]


def test_bitmex_instrument_has_funding_mark_and_open_interest() -> None:
    found = tables(SimulatorSettings(start="2024-03-01T03:58", minutes=4, rate=5))

    for message in found["instrument", "partial"]:
        (item,) = message["data"]
        assert item["state"] == "Open"
        assert {"fundingRate", "indicativeFundingRate", "markPrice", "openInterest"} <= item.keys()
    times = [
        item["fundingTimestamp"]
        for message in found["instrument", "update"]
        for item in message["data"]
        if item["symbol"] == "XBTUSD" and "fundingTimestamp" in item
    ]
    assert times == ["2024-03-01T04:00:00.000Z"] * 2 + ["2024-03-01T12:00:00.000Z"] * 2


def test_bitmex_quotes_are_the_best_of_the_book() -> None:
    settings = SimulatorSettings(minutes=1, rate=100, symbols=("XBTUSD",))
    found = tables(settings)
    quotes = [message["data"][0] for message in found["quote", "insert"]]
    best = {(max(book.bids), min(book.asks)) for _, book in rebuild(settings, "bitmex")}

    assert {(quote["bidPrice"], quote["askPrice"]) for quote in quotes} <= best


def test_binance_futures_sends_each_stream() -> None:
    settings = SimulatorSettings(minutes=1, rate=200, symbols=("btcusdt",))
    streams = Counter(message["stream"] for message in messages_of(settings, "binance-futures"))

    assert streams.keys() == {
        f"btcusdt@{channel}"
        for channel in (
            "trade",
            "depth@0ms",
            "depthSnapshot",
            "bookTicker",
            "markPrice@1s",
            "ticker",
            "forceOrder",
            "openInterest",
        )
    }
    assert streams["btcusdt@markPrice@1s"] == 60
    assert streams["btcusdt@depthSnapshot"] == 1


def test_binance_futures_snapshot_arrives_after_deltas_it_does_not_hold() -> None:
    settings = SimulatorSettings(minutes=1, rate=100, symbols=("btcusdt",))
    depths = [
        message["data"]
        for message in messages_of(settings, "binance-futures")
        if "@depth" in message["stream"]
    ]
    position = next(n for n, data in enumerate(depths) if "lastUpdateId" in data)
    last_id = depths[position]["lastUpdateId"]
    ids = [delta["u"] for delta in depths[:position]]

    assert last_id in ids
    assert ids[0] < last_id < ids[-1]


def test_binance_futures_mark_price_names_the_next_funding() -> None:
    settings = SimulatorSettings(start="2024-03-01T07:59", minutes=2, rate=5)
    due = {
        (message["data"]["E"] // 60_000 * 60_000, message["data"]["T"])
        for message in messages_of(settings, "binance-futures")
        if message["stream"] == "btcusdt@markPrice@1s"
    }

    at_8, at_16 = 1_709_280_000_000, 1_709_308_800_000
    assert {(at_8 - 60_000, at_8), (at_8, at_16)} <= due


def test_binance_futures_liquidation_is_a_filled_order() -> None:
    orders = [
        message["data"]["o"]
        for message in messages_of(SimulatorSettings(minutes=1, rate=200), "binance-futures")
        if message["stream"].endswith("@forceOrder")
    ]

    assert orders
    assert {order["X"] for order in orders} == {"FILLED"}
    assert {order["S"] for order in orders} == {"BUY", "SELL"}


def test_deribit_option_tickers_have_greeks_and_futures_have_funding() -> None:
    kinds = set()
    for message in messages_of(SimulatorSettings(minutes=1, rate=40), "deribit"):
        channel, data = message["params"]["channel"], message["params"]["data"]
        if channel.startswith("ticker."):
            is_option = data["instrument_name"].endswith(("-C", "-P"))
            assert ("greeks" in data) == is_option != ("current_funding" in data)
            assert data["best_bid_price"] < data["best_ask_price"]
            kinds.add(is_option)

    assert kinds == {True, False}


def test_deribit_option_book_stays_near_its_mark_price() -> None:
    settings = SimulatorSettings(minutes=4, rate=40, symbols=("BTC-29MAR24-60000-C",))
    for message in messages_of(settings, "deribit"):
        data = message["params"]["data"]
        if "greeks" in data:
            assert abs(data["best_bid_price"] - data["mark_price"]) < 0.01
            assert data["bid_iv"] <= data["ask_iv"]


def test_deribit_trades_include_liquidations_of_takers_and_makers() -> None:
    settings = SimulatorSettings(minutes=1, rate=400, symbols=("BTC-PERPETUAL",))
    marks = {
        item["liquidation"]
        for message in messages_of(settings, "deribit")
        if message["params"]["channel"].startswith("trades.")
        for item in message["params"]["data"]
        if "liquidation" in item
    }

    assert marks == {"T", "M"}


def test_deribit_default_options_expire_after_the_start() -> None:
    channels = {
        message["params"]["channel"]
        for message in messages_of(
            SimulatorSettings(start="2025-12-20", minutes=1, rate=5), "deribit"
        )
    }

    assert "ticker.BTC-30JAN26-60000-C.raw" in channels


def test_coinbase_sends_each_type_and_trades_before_tickers() -> None:
    messages = messages_of(SimulatorSettings(minutes=1, rate=50, symbols=("BTC-USD",)), "coinbase")
    kinds = [message["type"] for message in messages]

    assert kinds[:4] == ["subscriptions", "last_match", "ticker", "snapshot"]
    assert set(kinds[4:]) == {"match", "l2update", "ticker"}
    trade_id = None
    for message in messages[4:]:
        if message["type"] == "match":
            assert len(message["time"]) == 27
            trade_id = message["trade_id"]
        elif message["type"] == "ticker":
            assert message["trade_id"] == trade_id
            assert float(message["best_bid"]) < float(message["best_ask"])
            assert {"best_bid_size", "best_ask_size"} <= message.keys()


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_exchange_times_lie_a_little_before_local_times(exchange: str) -> None:
    ages = []
    for line in lines_of(SimulatorSettings(minutes=1, rate=20), exchange):
        venue_us = venue_time_us(msgspec.json.decode(line[29:]))
        if venue_us is not None:
            ages.append(parse_us(line[:28]) - venue_us)

    assert len(ages) > 1_000
    assert min(ages) > 0
    assert max(ages) < SECOND_US / 10


def venue_time_us(message: dict[str, Any]) -> int | None:
    match message:
        case {"table": _, "data": [{"timestamp": str(text)}, *_]} | {"time": str(text)}:
            return parse_us(text)
        case {"data": {"E": int(ms)}} | {"params": {"data": {"timestamp": int(ms)}}}:
            return ms * 1000
        case {"params": {"data": [{"timestamp": int(ms)}, *_]}}:
            return ms * 1000
    return None
