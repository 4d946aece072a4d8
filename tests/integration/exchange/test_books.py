"""What a client rebuilds from each venue's messages is the truth, at every sequence number."""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
import pytest

from tardis_machine.model.records import AnyBookChange
from tests.integration.exchange.clients import (
    DEADLINE_SECONDS,
    Book,
    Gateway,
    Rebuilt,
    running,
)

UPDATES = 60
SYMBOLS = {
    "bitmex": ["ETHUSD", "XBTUSD"],
    "binance-futures": ["btcusdt", "ethusdt"],
    "binance": ["btcusdt", "ethusdt"],
    "deribit": ["BTC-PERPETUAL", "BTC-29MAR24-60000-C"],
    "coinbase": ["BTC-USD", "ETH-USD"],
    "kraken": ["BTC/USD", "ETH/USD"],
    "okex-swap": ["BTC-USDT-SWAP", "ETH-USDT-SWAP"],
}

ADDRESSES = {
    "bitmex": "wss://ws.bitmex.com/realtime",
    "binance-futures": "wss://fstream.binance.com/public/stream",
    "binance": "wss://stream.binance.com/stream?timeUnit=microsecond",
    "deribit": "wss://streams.deribit.com/ws/api/v2",
    "coinbase": "wss://ws-feed.exchange.coinbase.com",
    "kraken": "wss://ws.kraken.com/v2",
    "okex-swap": "wss://ws.okx.com:8443/ws/v5/public",
}
BOOKS = {
    "binance-futures": "fapi.binance.com/fapi/v1/depth",
    "binance": "api.binance.com/api/v1/depth",
}
FRAMES: dict[str, Callable[[list[str]], list[Any]]] = {
    "bitmex": lambda symbols: [
        {"op": "subscribe", "args": [f"{table}:{symbol}" for symbol in symbols]}
        for table in ("orderBookL2", "trade")
    ],
    "binance-futures": lambda symbols: [
        {"method": "SUBSCRIBE", "params": [f"{symbol}@{name}" for symbol in symbols], "id": 1}
        for name in ("depth@0ms", "trade")
    ],
    "binance": lambda symbols: [
        {"method": "SUBSCRIBE", "params": [f"{symbol}@{name}" for symbol in symbols], "id": 1}
        for name in ("depth@100ms", "trade")
    ],
    "deribit": lambda symbols: [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "public/subscribe",
            "params": {"channels": [f"{name}.{s}.100ms" for name in NAMES for s in symbols]},
        }
    ],
    "okex-swap": lambda symbols: [
        {"op": "subscribe", "args": [{"channel": "books", "instId": symbol} for symbol in symbols]}
    ],
    "kraken": lambda symbols: [
        {"method": "subscribe", "params": {"channel": "book", "symbol": symbols, "depth": 1000}},
        {"method": "subscribe", "params": {"channel": "trade", "symbol": symbols}},
    ],
    "coinbase": lambda symbols: [
        {
            "type": "subscribe",
            "channels": [
                {"name": name, "product_ids": symbols} for name in ("level2_batch", "matches")
            ],
        }
    ],
}
NAMES = ("book", "trades")


class Reader:
    """Notes the book of every symbol after each of its book messages."""

    def __init__(self, exchange: str) -> None:
        self.exchange = exchange
        self.rebuilt = Rebuilt(exchange)
        self.noted: dict[str, list[tuple[int | None, Book]]] = {}
        self.snapshot_times: dict[str, str] = {}

    def take(self, text: str) -> None:
        message = msgspec.json.decode(text)
        records = self.rebuilt.take(text.encode())
        found = self.book_message(message)
        if found is None:
            return
        symbol, sequence, time = found
        self.snapshot_times.setdefault(symbol, time)
        # An update that the snapshot contains already changes nothing.
        if any(isinstance(record, AnyBookChange) for record in records):
            book = self.rebuilt.copy(symbol.upper())
            self.noted.setdefault(symbol, []).append((sequence, book))

    def book_message(self, message: Any) -> tuple[str, int | None, str] | None:
        """Return symbol, the venue's sequence number and its time of a book message."""
        match message:
            case {"table": "orderBookL2", "data": [*items]}:
                return items[0]["symbol"], None, items[0]["timestamp"]
            case {"type": "snapshot" | "l2update", "product_id": product, "time": time}:
                return product, None, time
            case {"arg": {"channel": "books", "instId": symbol}, "data": [item]}:
                return symbol, item["seqId"], ""
            case {"channel": "book", "data": [item]}:
                return item["symbol"], None, item["timestamp"]
            case {"params": {"channel": channel, "data": data}} if channel.startswith("book"):
                return data["instrument_name"], data["change_id"], ""
            case {"stream": stream, "data": data} if "@depth@" in stream:
                return stream.partition("@")[0], data["u"], ""
        return None

    def has_enough(self) -> bool:
        counts = [len(self.noted.get(symbol, [])) for symbol in SYMBOLS[self.exchange]]
        return min(counts) >= UPDATES


async def follow(gateway: Gateway, reader: Reader) -> None:
    """Subscribe as clients of the venue do, and read until enough has come."""
    async with gateway.connect(ADDRESSES[reader.exchange]) as socket:
        for frame in FRAMES[reader.exchange](SYMBOLS[reader.exchange]):
            await socket.send_json(frame)
        if reader.exchange in BOOKS:
            for symbol in SYMBOLS[reader.exchange]:
                reader.take(await depth_snapshot(gateway, socket, reader, symbol))
        while not reader.has_enough():
            await take_next(socket, reader)


async def take_next(socket: aiohttp.ClientWebSocketResponse, reader: Reader) -> None:
    message = await socket.receive(timeout=DEADLINE_SECONDS)
    assert message.type is aiohttp.WSMsgType.TEXT, message
    reader.take(message.data)


async def depth_snapshot(
    gateway: Gateway, socket: aiohttp.ClientWebSocketResponse, reader: Reader, symbol: str
) -> str:
    """Ask for a book once an update of its symbol has come, as the venue's documents demand."""
    while symbol not in reader.snapshot_times:
        await take_next(socket, reader)
    body = await gateway.get(BOOKS[reader.exchange], symbol=symbol.upper(), limit=1000)
    message = {"stream": f"{symbol}@depthSnapshot", "generated": True, "data": body}
    return msgspec.json.encode(message).decode()


async def first_sequence(gateway: Gateway, reader: Reader, symbol: str) -> int:
    """Find the number of the snapshot by its time, for venues that do not number their books."""
    book = reader.noted[symbol][0][1]
    sequence, _ = await gateway.truth(
        reader.exchange, symbol, timestamp=reader.snapshot_times[symbol]
    )
    # An update of the same millisecond may have followed the snapshot.
    for candidate in range(sequence, max(sequence - 4, -1), -1):
        if (await gateway.truth(reader.exchange, symbol, seq=candidate))[1] == book:
            return candidate
    raise AssertionError("no book of the truth equals the snapshot")


@pytest.mark.parametrize("exchange", SYMBOLS)
async def test_rebuilt_books_equal_the_truth_at_every_sequence_number(exchange: str) -> None:
    reader = Reader(exchange)
    simulate = {"rate": 150, "start": "2024-03-01", "symbols": tuple(SYMBOLS[exchange])}
    async with running(exchange, simulate=simulate, speed=2) as gateway:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await follow(gateway, reader)
        for symbol, noted in reader.noted.items():
            start = 0
            if noted[0][0] is None:
                start = await first_sequence(gateway, reader, symbol)
            for number, (sequence, book) in enumerate(noted):
                asked = start + number if sequence is None else sequence
                told, truth = await gateway.truth(exchange, symbol, seq=asked)
                assert told == asked
                assert truth == book, f"{symbol} at {asked}"
        assert sorted(reader.noted) == sorted(SYMBOLS[exchange])
