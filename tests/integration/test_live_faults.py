"""Books of live feeds, streamed from exchanges that fail in every way: they stay true."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tardis_machine.model.control import Disconnect
from tardis_machine.model.records import AnyBookChange, Record
from tardis_machine.model.requests import StreamRequest
from tardis_machine.session.live.plan import plan_stream
from tardis_machine.session.live.stream import LiveClient
from tardis_machine.session.live.views import LiveViews
from tardis_machine.sources.context import Timing
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.live.source import LiveSource
from tests.contract.live_venues import deribit_push
from tests.servers.exchanges import Exchanges, VenueSocket, running_exchanges, until

FAULTS = 40
UPDATES_BETWEEN = 15
SYMBOLS = {"binance-futures": ("BTCUSDT", "ETHUSDT"), "deribit": ("BTC-PERPETUAL", "ETH-PERPETUAL")}
LIMITS = {"rateLimits": [{"rateLimitType": "REQUEST_WEIGHT", "limit": 1_000_000}]}


class Market:
    """The true book of one symbol, and its updates in the venue's words."""

    def __init__(self, exchange: str, symbol: str, chance: random.Random) -> None:
        self.symbol = symbol
        self.bids: dict[float, float] = {100.0: 1.0}
        self.number = 1000
        self._is_binance = exchange.startswith("binance")
        self._chance = chance

    def change(self) -> dict[str, Any]:
        """Change one level; return the update."""
        price = float(self._chance.randint(90, 110))
        amount = float(self._chance.randint(0, 3))
        previous, self.number = self.number, self.number + 1
        if amount:
            self.bids[price] = amount
        else:
            self.bids.pop(price, None)
        return self._update(previous, price, amount)

    def snapshot(self) -> dict[str, Any]:
        """Return the whole book."""
        if self._is_binance:
            bids = [[str(price), str(amount)] for price, amount in self.bids.items()]
            return {"lastUpdateId": self.number, "T": 1, "bids": bids, "asks": []}
        levels = [["new", price, amount] for price, amount in self.bids.items()]
        return self._deribit("snapshot", levels, change_id=self.number)

    def _update(self, previous: int, price: float, amount: float) -> dict[str, Any]:
        if self._is_binance:
            ids = {"U": self.number, "u": self.number, "pu": previous}
            data = {"e": "depthUpdate", "E": 1, "s": self.symbol, **ids}
            levels = {"b": [[str(price), str(amount)]], "a": []}
            return {"stream": f"{self.symbol.lower()}@depth@0ms", "data": data | levels}
        ids = {"change_id": self.number, "prev_change_id": previous}
        return self._deribit("change", [["change" if amount else "delete", price, amount]], **ids)

    def _deribit(self, kind: str, bids: list[Any], **ids: int) -> dict[str, Any]:
        data = {"type": kind, "timestamp": 1, "instrument_name": self.symbol, **ids}
        return deribit_push(f"book.{self.symbol}.100ms", data | {"bids": bids, "asks": []})


class Venue:
    """An exchange that sends updates of its markets, and fails."""

    def __init__(self, exchange: str, exchanges: Exchanges, chance: random.Random) -> None:
        self.markets = {symbol: Market(exchange, symbol, chance) for symbol in SYMBOLS[exchange]}
        self._is_binance = exchange.startswith("binance")
        self._exchanges = exchanges
        self._chance = chance
        self._answered: dict[VenueSocket, int] = {}

    async def run(self, faults: int) -> None:
        """Send updates, with faults in between."""
        for _ in range(faults):
            for _ in range(UPDATES_BETWEEN):
                await self.send_one()
                await asyncio.sleep(0.001)
            await until(self._open)
            with suppress(ConnectionError):
                await self._fail()

    async def send_one(self) -> None:
        """Change a market and tell whoever is subscribed."""
        market = self._chance.choice([*self.markets.values()])
        update = market.change()
        for socket in self._open():
            with suppress(ConnectionError):
                await self._answer_subscriptions(socket)
                await socket.send_compact(update)
        for name, each in self.markets.items():
            self._exchanges.answers[f"depth?symbol={name}&"] = each.snapshot()

    async def _answer_subscriptions(self, socket: VenueSocket) -> None:
        """Send the books of what was subscribed since the last time."""
        frames = socket.frames[self._answered.get(socket, 0) :]
        self._answered[socket] = len(socket.frames)
        for frame in frames:
            if not self._is_binance and frame["method"] == "public/subscribe":
                for name in frame["params"]["channels"]:
                    await socket.send_compact(self.markets[name.split(".")[1]].snapshot())

    async def _fail(self) -> None:
        socket, fault = self._open()[-1], self._chance.randrange(5)
        if fault == 0:
            await socket.close(1000)
        elif fault == 1:
            socket.drop()
        elif fault == 2:
            await socket.send("garbage")
        elif fault == 3:
            self._chance.choice([*self.markets.values()]).change()
        else:
            self._exchanges.refusals = [503]
            socket.drop()

    def _open(self) -> list[VenueSocket]:
        return [
            socket for socket in self._exchanges.sockets if not socket.is_gone and socket.frames
        ]


class Books:
    """The books as a client makes them from its records."""

    def __init__(self) -> None:
        self.bids: dict[str, dict[float, float]] = {}
        self.records = 0
        self.disconnects = 0
        self.orphans = 0
        """Updates without a snapshot before them."""

    def take(self, record: Record) -> None:
        self.records += 1
        if isinstance(record, Disconnect):
            self.disconnects += 1
            for symbol in record.symbols or ():
                self.bids.pop(symbol, None)
        elif isinstance(record, AnyBookChange):
            if record.is_snapshot:
                self.bids[record.symbol] = {}
            book = self.bids.get(record.symbol)
            if book is None:
                self.orphans += 1
                return
            for level in record.bids:
                book[level.price] = level.amount
                if not level.amount:
                    del book[level.price]


async def hurry(seconds: float) -> None:
    await asyncio.sleep(seconds / 1000)


@pytest.fixture
async def exchanges() -> AsyncIterator[Exchanges]:
    async with running_exchanges() as running:
        running.answers["exchangeInfo"] = LIMITS
        yield running


@pytest.mark.parametrize("exchange", SYMBOLS)
async def test_books_equal_those_of_a_venue_that_fails(exchange: str, exchanges: Exchanges) -> None:
    venue = Venue(exchange, exchanges, random.Random(7))
    request = StreamRequest(
        exchange=exchange,
        symbols=list(SYMBOLS[exchange]),
        data_types=["book_change"],
        with_disconnect_messages=True,
    )
    books = Books()

    async def watch(client: LiveClient) -> None:
        async for ready in client.chunks():
            for chunk in ready:
                for record in chunk.records:
                    books.take(record)

    settings = LiveSettings(exchange_gateway=exchanges.gateway)
    async with LiveSource(settings, timing=Timing(sleep=hurry)) as source:
        task = asyncio.create_task(watch(LiveClient(plan_stream([request], {}), LiveViews(source))))
        await exchanges.socket(1)
        await venue.run(FAULTS)
        async with asyncio.timeout(60):
            while books.bids != {name: market.bids for name, market in venue.markets.items()}:
                await venue.send_one()
                await asyncio.sleep(0.02)
        task.cancel()
    assert books.disconnects >= FAULTS / 2
    assert books.orphans == 0
    await until(lambda: all(socket.is_gone for socket in exchanges.sockets))
