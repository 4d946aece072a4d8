"""Clients of the exchanges on this machine: plain sockets, and books made by our mappers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import make_normalizer
from tardis_machine.model.records import BookChange, Record, decoded
from tardis_machine.server.exchange.serve import open_exchanges
from tardis_machine.server.exchange.settings import ExchangeSettings
from tardis_machine.sources.simulator import SimulatorSettings

DEADLINE_SECONDS = 60.0
LOCAL = "2024-03-01T00:00:00.000Z"

Book = tuple[dict[float, float], dict[float, float]]


@dataclass
class Gateway:
    """A running gateway, and a client to ask it with."""

    place: str
    http: aiohttp.ClientSession

    @asynccontextmanager
    async def connect(self, address: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        url = f"ws://{self.place}/{address.removeprefix('wss://')}"
        async with self.http.ws_connect(url, autoping=False, max_msg_size=0) as socket:
            yield socket

    async def get(self, path: str, **query: object) -> Any:
        status, answer = await self.ask(path, **query)
        assert status == 200, answer
        return answer

    async def ask(self, path: str, **query: object) -> tuple[int, Any]:
        texts = {name: str(value) for name, value in query.items()}
        async with self.http.get(f"http://{self.place}/{path}", params=texts) as response:
            return response.status, await response.json()

    async def truth(self, exchange: str, symbol: str, **query: object) -> tuple[int, Book]:
        answer = await self.get(f"truth/{exchange}/{symbol}", **query)
        sides = [
            {float(price): float(amount) for price, amount in answer[side]}
            for side in ("bids", "asks")
        ]
        return answer["sequence"], (sides[0], sides[1])


@asynccontextmanager
async def running(
    *exchanges: str, simulate: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    monotonic = settings.pop("monotonic", None)
    simulated = SimulatorSettings(exchanges=exchanges, **(simulate or {}))
    options = [monotonic] if monotonic else []
    async with (
        open_exchanges(
            simulated, ExchangeSettings(**{"serve": 0, **settings}), *options
        ) as exchange,
        aiohttp.ClientSession() as http,
    ):
        yield Gateway(f"127.0.0.1:{exchange.port}", http)


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again and again, and return the first answer that is true."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            if answer := await condition():
                return answer
            await asyncio.sleep(0.01)


async def receive(socket: aiohttp.ClientWebSocketResponse) -> Any:
    """Return the next message of a socket, decoded; pings are answered."""
    while True:
        message = await socket.receive(timeout=DEADLINE_SECONDS)
        if message.type is aiohttp.WSMsgType.PING:
            await socket.pong(message.data)
        elif message.type is not aiohttp.WSMsgType.PONG:
            assert message.type is aiohttp.WSMsgType.TEXT, message
            return msgspec.json.decode(message.data)


async def receive_until(socket: aiohttp.ClientWebSocketResponse, **wanted: Any) -> Any:
    """Return the next message that has these fields."""
    while True:
        message = await receive(socket)
        if all(message.get(name) == value for name, value in wanted.items()):
            return message


@dataclass
class Rebuilt:
    """Books rebuilt by our mappers, message by message."""

    exchange: str
    data_types: tuple[str, ...] = ("trade", "book_change")
    books: dict[str, Book] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = REGISTRY[self.exchange]
        self._normalizer = make_normalizer(known, self.data_types, 0, 0, is_live=True)

    def take(self, message: bytes) -> list[Record]:
        """Map one raw message, apply what it changes, and return its records."""
        mapped: list[Record] = []
        self._normalizer.map_message(message, LOCAL, mapped.append)
        records = [decoded(record) for record in mapped]
        for record in records:
            if isinstance(record, BookChange):
                self._apply(record)
        self.records += records
        return records

    def _apply(self, change: BookChange) -> None:
        if change.is_snapshot:
            self.books[change.symbol] = ({}, {})
        book = self.books[change.symbol]
        for side, levels in zip(book, (change.bids, change.asks), strict=True):
            for level in levels:
                if level.amount:
                    side[level.price] = level.amount
                else:
                    side.pop(level.price, None)

    def copy(self, symbol: str) -> Book:
        bids, asks = self.books[symbol]
        return dict(bids), dict(asks)
