"""A client that does what the venue asks for always has the true book, whatever goes wrong."""

import asyncio
from typing import Any, ClassVar

import aiohttp
import msgspec
import pytest

from tests.integration.exchange.clients import DEADLINE_SECONDS, Gateway, Rebuilt, running

FAULTS = ("close=0.4s", "stall=1s", "gap=0.3s", "garbage=0.2s", "rate-limit=1s", "refuse=1s")
KINDS = {"close", "stall", "garbage", "rate-limit", "refuse"}
SILENCE_SECONDS = 0.5
"""A stalled connection is left after this; the market of these tests is never as quiet."""

SIMULATED = {"rate": 300.0}


class LostConnectionError(Exception):
    """The client must start over."""


class BitmexClient:
    """Knows the time of the last book message; all of one time belong together."""

    address = "ws.bitmex.com/realtime"
    subscribe: ClassVar[Any] = {"op": "subscribe", "args": ["orderBookL2:XBTUSD", "trade:XBTUSD"]}
    exchange, symbol = "bitmex", "XBTUSD"

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.rebuilt = Rebuilt(self.exchange)
        self.before = ""

    async def take(self, text: str) -> dict[str, object] | None:
        """Apply a message; return how to ask for the book as it was before, if that is known."""
        message = msgspec.json.decode(text)
        if "error" in message:
            raise LostConnectionError(text)
        if message.get("table") != "orderBookL2":
            return None
        time = message["data"][0]["timestamp"]
        known = self.before if self.before and time > self.before else None
        self.book = self.rebuilt.copy(self.symbol) if known else None
        self.rebuilt.take(text.encode())
        # A partial is as late as its clock: only updates date the book.
        self.before = "" if message["action"] == "partial" else time
        return {"timestamp": known} if known else None


class BinanceClient:
    """Checks that each update follows the one before it, and fetches the book."""

    address = "fstream.binance.com/public/stream"
    subscribe: ClassVar[Any] = {"method": "SUBSCRIBE", "params": ["btcusdt@depth@0ms"], "id": 1}
    exchange, symbol = "binance-futures", "BTCUSDT"

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.rebuilt = Rebuilt(self.exchange)
        self.last: int | None = None

    async def take(self, text: str) -> dict[str, object] | None:
        message = msgspec.json.decode(text)
        if "stream" not in message:
            return None
        data = message["data"]
        if self.last not in (None, data["pu"]):
            raise LostConnectionError("gap")
        is_first, self.last = self.last is None, data["u"]
        records = self.rebuilt.take(text.encode())
        if is_first:
            self.rebuilt.take(await self.snapshot())
        self.book = self.rebuilt.copy(self.symbol)
        return {"seq": data["u"]} if records else None

    async def snapshot(self) -> bytes:
        path = "fapi.binance.com/fapi/v1/depth"
        status, body = await self.gateway.ask(path, symbol=self.symbol, limit=1000)
        while status == 429:
            status, body = await self.gateway.ask(path, symbol=self.symbol, limit=1000)
        message = {"stream": "btcusdt@depthSnapshot", "generated": True, "data": body}
        return msgspec.json.encode(message)


Client = BitmexClient | BinanceClient


async def follow(client: Client, found: list[str]) -> None:
    """Compare every book to the truth until the connection is lost."""
    async with client.gateway.connect(client.address) as socket:
        await socket.send_json(client.subscribe)
        while True:
            frame = await socket.receive(timeout=SILENCE_SECONDS)
            if frame.type is not aiohttp.WSMsgType.TEXT:
                raise LostConnectionError
            try:
                asked = await client.take(frame.data)
            except msgspec.DecodeError:
                continue
            if asked is not None:
                _, truth = await client.gateway.truth(client.exchange, client.symbol, **asked)
                assert truth == client.book, asked
                found.append(str(asked))


@pytest.mark.parametrize("kind", [BitmexClient, BinanceClient])
async def test_books_are_true_between_all_faults(kind: type[Client]) -> None:
    found: list[str] = []
    made: dict[str, int] = {}
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        running(kind.exchange, simulate=SIMULATED, faults=FAULTS) as gateway,
    ):
        while len(found) < 100 or not set(made) >= KINDS:
            try:
                await follow(kind(gateway), found)
            except (LostConnectionError, TimeoutError, aiohttp.ClientError):
                made = (await gateway.get("faults"))["counts"]
    assert ("gap" in made) is (kind is BinanceClient)
