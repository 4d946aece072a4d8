import zlib
from typing import Any

import aiohttp
import pytest

from tests.integration.exchange.clients import receive, receive_until, running

ADDRESS = "ws.kraken.com/v2"


async def call(socket: aiohttp.ClientWebSocketResponse, method: str, **params: Any) -> Any:
    """Call a method and return its answer."""
    await socket.send_json({"method": method, "params": params, "req_id": 9})
    return await receive_until(socket, req_id=9)


async def test_each_symbol_is_acknowledged_and_starts_with_a_snapshot() -> None:
    async with running("kraken") as gateway, gateway.connect(ADDRESS) as socket:
        assert (await receive(socket))["data"][0]["system"] == "online"
        symbols = ["BTC/USD", "ETH/USD"]
        first = await call(socket, "subscribe", channel="book", symbol=symbols, depth=1000)
        assert (first["success"], first["result"]["symbol"]) == (True, "BTC/USD")
        assert (await receive(socket))["type"] == "snapshot"
        second = await receive_until(socket, method="subscribe")
        assert second["result"]["symbol"] == "ETH/USD"
        await receive_until(socket, channel="book", type="update")
        await receive_until(socket, channel="heartbeat")
        ended = await call(socket, "unsubscribe", channel="book", symbol=["BTC/USD"])
        assert ended["success"] is True


@pytest.mark.parametrize("parameters", [{}, {"event_trigger": "bbo"}])
async def test_trades_and_tickers_are_sent(parameters: dict[str, str]) -> None:
    async with running("kraken", speed=5) as gateway, gateway.connect(ADDRESS) as socket:
        await call(socket, "subscribe", channel="ticker", symbol=["BTC/USD"], **parameters)
        await call(socket, "subscribe", channel="trade", symbol=["BTC/USD"], snapshot=False)
        await receive_until(socket, channel="ticker", type="update")
        trade = await receive_until(socket, channel="trade")
    assert trade["type"] == "update"
    assert trade["data"][0]["symbol"] == "BTC/USD"


async def test_checksum_is_that_of_the_best_ten_levels() -> None:
    async with running("kraken") as gateway, gateway.connect(ADDRESS) as socket:
        await call(socket, "subscribe", channel="book", symbol=["ETH/USD"], depth=1000)
        book = (await receive(socket))["data"][0]
    digits = [
        f"{level['price']:.2f}".replace(".", "").lstrip("0")
        + f"{level['qty']:.8f}".replace(".", "").lstrip("0")
        for level in (*book["asks"][:10], *book["bids"][:10])
    ]
    assert book["checksum"] == zlib.crc32("".join(digits).encode())


@pytest.mark.parametrize(
    ("method", "params", "error"),
    [
        ("subscribe", {"channel": "trade", "symbol": ["FOO/BAR"]}, "Currency pair not supported"),
        ("subscribe", {"channel": "foo", "symbol": ["BTC/USD"]}, "Unsupported channel foo"),
        ("subscribe", {"channel": "trade"}, "Symbol(s) not provided"),
        ("subscribe", {"channel": "book", "symbol": ["BTC/USD"], "depth": 7}, "Unsupported depth"),
        ("unsubscribe", {"channel": "trade", "symbol": ["BTC/USD"]}, "Subscription Not Found"),
        ("dance", {}, "Unsupported method"),
    ],
)
async def test_call_that_is_refused_has_an_error(
    method: str, params: dict[str, Any], error: str
) -> None:
    async with running("kraken") as gateway, gateway.connect(ADDRESS) as socket:
        answer = await call(socket, method, **params)
    assert answer["success"] is False
    assert answer["error"].startswith(error)


async def test_ping_and_instruments_are_answered() -> None:
    async with running("kraken") as gateway, gateway.connect(ADDRESS) as socket:
        assert (await call(socket, "ping"))["method"] == "pong"
        await call(socket, "subscribe", channel="instrument")
        told = await receive_until(socket, channel="instrument")
        await socket.send_str("{")
        assert (await receive_until(socket, success=False))["error"] == "Malformed JSON"
    assert [pair["symbol"] for pair in told["data"]["pairs"]] == ["BTC/USD", "ETH/USD"]
