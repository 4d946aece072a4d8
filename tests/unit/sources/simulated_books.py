"""Rebuild books from simulated messages as a consumer of each venue would."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from tardis_machine.sources.simulator import SimulatorSettings, simulate_minutes


class Snapshot(NamedTuple):
    symbol: str
    bids: list[tuple[float, float]]
    asks: list[tuple[float, float]]


class Level(NamedTuple):
    symbol: str
    is_bid: bool
    price: float
    amount: float


class Trade(NamedTuple):
    symbol: str
    is_buy: bool
    price: float
    amount: float


class Reset(NamedTuple):
    """The connection was lost; nothing known before counts."""


Event = Snapshot | list[Level] | Trade | Reset


def lines_of(settings: SimulatorSettings, exchange: str) -> list[str]:
    content = b"".join(minute.content for minute in simulate_minutes(settings, exchange))
    return content.decode().split("\n")[:-1]


def messages_of(settings: SimulatorSettings, exchange: str) -> list[dict[str, Any]]:
    lines = lines_of(settings, exchange)
    return [msgspec.json.decode(line[29:]) for line in lines if line]


def events_of(settings: SimulatorSettings, exchange: str) -> Iterator[Event]:
    reader = READERS[exchange]()
    for line in lines_of(settings, exchange):
        if line:
            yield from reader.read(msgspec.json.decode(line[29:]))
        else:
            reader = READERS[exchange]()
            yield Reset()


class BitmexReader:
    def __init__(self) -> None:
        self.prices: dict[int, float] = {}

    def read(self, message: dict[str, Any]) -> Iterator[Event]:
        table, action, data = message["table"], message["action"], message["data"]
        if table == "trade" and action == "insert":
            for item in data:
                yield Trade(item["symbol"], item["side"] == "Buy", item["price"], item["size"])
        elif table == "orderBookL2" and action == "partial":
            self.prices.update({item["id"]: item["price"] for item in data})
            yield Snapshot(
                message["filter"]["symbol"],
                [(item["price"], item["size"]) for item in data if item["side"] == "Buy"],
                [(item["price"], item["size"]) for item in data if item["side"] == "Sell"],
            )
        elif table == "orderBookL2":
            yield [self.level(action, item) for item in data]

    def level(self, action: str, item: dict[str, Any]) -> Level:
        if action == "insert":
            assert item["id"] not in self.prices
            self.prices[item["id"]] = item["price"]
        price = self.prices.pop(item["id"]) if action == "delete" else self.prices[item["id"]]
        assert ("size" in item) == (action != "delete")
        return Level(item["symbol"], item["side"] == "Buy", price, item.get("size", 0))


@dataclass
class BinanceSymbol:
    last_id: int | None = None
    snapshot_id: int | None = None
    waiting: list[dict[str, Any]] = field(default_factory=list)


class BinanceFuturesReader:
    def __init__(self) -> None:
        self.symbols: dict[str, BinanceSymbol] = {}

    def read(self, message: dict[str, Any]) -> Iterator[Event]:
        symbol, _, channel = message["stream"].partition("@")
        data = message["data"]
        state = self.symbols.setdefault(symbol, BinanceSymbol())
        if channel == "trade":
            yield Trade(symbol, not data["m"], float(data["p"]), float(data["q"]))
        elif channel.startswith("depth@"):
            yield from self.read_delta(symbol, state, data)
        elif channel == "depthSnapshot" and state.snapshot_id is None:
            assert message["generated"] is True
            state.snapshot_id = data["lastUpdateId"]
            yield Snapshot(symbol, pairs(data["bids"]), pairs(data["asks"]))
            kept = [delta for delta in state.waiting if delta["u"] > data["lastUpdateId"]]
            for delta in kept:
                yield levels(symbol, delta)

    def read_delta(
        self, symbol: str, state: BinanceSymbol, delta: dict[str, Any]
    ) -> Iterator[Event]:
        assert delta["U"] <= delta["u"]
        assert state.last_id is None or self.joins(delta, state.last_id)
        state.last_id = delta["u"]
        if state.snapshot_id is None:
            state.waiting.append(delta)
        else:
            yield levels(symbol, delta)

    def joins(self, delta: dict[str, Any], last_id: int) -> bool:
        return bool(delta["pu"] == last_id)


class BinanceSpotReader(BinanceFuturesReader):
    def joins(self, delta: dict[str, Any], last_id: int) -> bool:
        return bool(delta["U"] == last_id + 1)


def pairs(items: list[list[str]]) -> list[tuple[float, float]]:
    return [(float(price), float(amount)) for price, amount in items]


def levels(symbol: str, delta: dict[str, Any]) -> list[Level]:
    bids = [Level(symbol, True, price, amount) for price, amount in pairs(delta["b"])]
    return bids + [Level(symbol, False, price, amount) for price, amount in pairs(delta["a"])]


class DeribitReader:
    def __init__(self) -> None:
        self.change_ids: dict[str, int] = {}

    def read(self, message: dict[str, Any]) -> Iterator[Event]:
        channel, data = message["params"]["channel"], message["params"]["data"]
        if channel.startswith("trades."):
            for item in data:
                is_buy = item["direction"] == "buy"
                yield Trade(item["instrument_name"], is_buy, item["price"], item["amount"])
        elif channel.startswith("book."):
            yield self.read_book(data)

    def read_book(self, data: dict[str, Any]) -> Event:
        symbol = data["instrument_name"]
        previous = self.change_ids.get(symbol)
        self.change_ids[symbol] = data["change_id"]
        if data["type"] == "snapshot":
            bids, asks = ([(p, a) for _, p, a in data[side]] for side in ("bids", "asks"))
            return Snapshot(symbol, bids, asks)
        assert data["prev_change_id"] == previous
        assert all((a == 0) == (act == "delete") for act, _, a in data["bids"] + data["asks"])
        changes = [Level(symbol, True, price, amount) for _, price, amount in data["bids"]]
        return changes + [Level(symbol, False, price, amount) for _, price, amount in data["asks"]]


class CoinbaseReader:
    def read(self, message: dict[str, Any]) -> Iterator[Event]:
        kind, symbol = message["type"], message.get("product_id", "")
        if kind == "match":
            is_buy = message["side"] == "sell"  # the side is the maker's
            yield Trade(symbol, is_buy, float(message["price"]), float(message["size"]))
        elif kind == "snapshot":
            yield Snapshot(symbol, pairs(message["bids"]), pairs(message["asks"]))
        elif kind == "l2update":
            yield [
                Level(symbol, side == "buy", float(price), float(size))
                for side, price, size in message["changes"]
            ]


READERS: dict[str, Any] = {
    "bitmex": BitmexReader,
    "binance-futures": BinanceFuturesReader,
    "binance": BinanceSpotReader,
    "deribit": DeribitReader,
    "coinbase": CoinbaseReader,
}


class Book:
    """One rebuilt book; it insists that trades take the best level and that changes show it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.bids = dict(snapshot.bids)
        self.asks = dict(snapshot.asks)
        self.unconfirmed: dict[float, float] = {}
        self.has_changed_since_trade = False

    def is_crossed(self) -> bool:
        return max(self.bids) >= min(self.asks)

    def apply(self, changes: list[Level]) -> None:
        for _, is_bid, price, amount in changes:
            side = self.bids if is_bid else self.asks
            left = self.unconfirmed.pop(price, None)
            assert left is None or abs(left - amount) < 1e-9 or len(side) <= THIN_BOOK
            if amount:
                side[price] = amount
            else:
                del side[price]
        self.has_changed_since_trade = True

    def fill(self, trade: Trade) -> None:
        if self.has_changed_since_trade:
            assert not self.unconfirmed, "a fill never reached the book"
            self.has_changed_since_trade = False
        side = self.asks if trade.is_buy else self.bids
        available = [price for price in side if self.unconfirmed.get(price) != 0.0]
        assert trade.price == (min(available) if trade.is_buy else max(available))
        assert trade.amount <= side[trade.price] + 1e-9
        self.unconfirmed[trade.price] = round(side[trade.price] - trade.amount, 9)


THIN_BOOK = 4
"""Makers refill the last levels of a book at once, so there a fill need not show."""


def rebuild(settings: SimulatorSettings, exchange: str) -> Iterator[tuple[Event, Book]]:
    """Yield each event with its book after it, for the symbols that have one."""
    books: dict[str, Book] = {}
    for event in events_of(settings, exchange):
        match event:
            case Reset():
                books.clear()
            case Snapshot(symbol):
                books[symbol] = Book(event)
                yield event, books[symbol]
            case Trade(symbol) if symbol in books:
                books[symbol].fill(event)
                yield event, books[symbol]
            case list():
                book = books[event[0].symbol]
                book.apply(event)
                yield event, book
