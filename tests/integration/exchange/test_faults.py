"""Faults on request, by chance and by the clock, as a client sees them."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.integration.exchange.clients import (
    DEADLINE_SECONDS,
    Gateway,
    receive,
    receive_until,
    running,
)

TRADES = "ws.bitmex.com/realtime?subscribe=trade:XBTUSD,orderBookL2:XBTUSD,quote:XBTUSD"
DEPTH = "fstream.binance.com/stream?streams=btcusdt@depth@0ms"
FAST = {"rate": 400.0}


async def make(gateway: Gateway, kind: str, **fields: object) -> Any:
    """Make a fault at once."""
    url = f"http://{gateway.place}/faults"
    async with gateway.http.post(url, json={"kind": kind, **fields}) as response:
        return await response.json()


async def read_to_end(socket: aiohttp.ClientWebSocketResponse) -> int | None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for _ in socket:
            pass
    return socket.close_code


@pytest.mark.parametrize("code", [1000, 1012, 4001])
async def test_connection_is_closed_with_a_code(code: int) -> None:
    async with running("bitmex") as gateway, gateway.connect(TRADES) as socket:
        await receive(socket)
        assert await make(gateway, "close", value=code) == {"hit": [1]}
        assert await read_to_end(socket) == code
        told = await gateway.get("faults")
    assert told["counts"] == {"close": 1}
    assert told["latest"][0]["value"] == code


async def test_connection_is_cut_without_a_close_frame() -> None:
    async with running("bitmex") as gateway, gateway.connect(TRADES) as socket:
        await receive(socket)
        await make(gateway, "close", value=1006)
        assert await read_to_end(socket) == 1006


async def test_fault_hits_only_the_exchange_or_connection_it_names() -> None:
    async with (
        running("bitmex", "binance-futures") as gateway,
        gateway.connect(TRADES) as first,
        gateway.connect(TRADES) as second,
        gateway.connect(DEPTH) as third,
    ):
        for socket in (first, second, third):
            await receive(socket)
        assert await make(gateway, "close", exchange="binance-futures") == {"hit": [3]}
        assert await make(gateway, "close", connection=2, value=1011) == {"hit": [2]}
        assert await read_to_end(second) == 1011
        await receive_until(first, table="quote", action="insert")


async def test_stalled_connection_stays_open_and_silent() -> None:
    async with (
        running("bitmex", simulate=FAST) as gateway,
        gateway.connect(TRADES) as socket,
        gateway.connect(TRADES) as other,
    ):
        await receive(socket)
        await make(gateway, "stall", connection=1)
        await socket.ping()
        await socket.send_str("ping")
        async with asyncio.timeout(DEADLINE_SECONDS):
            # What was under way before the fault may still come.
            while True:
                try:
                    message = await socket.receive(timeout=0.5)
                except TimeoutError:
                    break
                assert message.type is aiohttp.WSMsgType.TEXT
                assert message.data != "pong"
        assert not socket.closed
        await receive_until(other, table="trade", action="insert")


async def test_gap_leaves_out_one_book_update() -> None:
    gaps = 0
    async with (
        running("binance-futures", simulate=FAST) as gateway,
        gateway.connect(DEPTH) as socket,
    ):
        before = (await receive(socket))["data"]
        await make(gateway, "gap")
        for _ in range(200):
            data = (await receive(socket))["data"]
            gaps += data["pu"] != before["u"]
            before = data
    assert gaps == 1


async def test_gap_is_made_only_where_numbers_show_it() -> None:
    async with running("bitmex") as gateway, gateway.connect(TRADES) as socket:
        await receive_until(socket, table="orderBookL2")
        assert await make(gateway, "gap") == {"hit": []}


async def test_garbage_comes_in_addition_to_the_messages() -> None:
    bad, good = 0, 0
    async with (
        running("binance-futures", simulate=FAST) as gateway,
        gateway.connect(DEPTH) as socket,
    ):
        before = (await receive(socket))["data"]["u"]
        await make(gateway, "garbage")
        while not bad or good < 50:
            text = (await socket.receive(timeout=DEADLINE_SECONDS)).data
            if text.endswith("}}"):
                data = msgspec.json.decode(text)["data"]
                assert data["pu"] == before
                before = data["u"]
                good += 1
            else:
                bad += 1
    assert bad == 1


async def test_handshake_is_refused_with_a_status() -> None:
    async with running("bitmex") as gateway:
        await make(gateway, "refuse", exchange="bitmex", value=429)
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            async with gateway.connect(TRADES):
                pass
        async with gateway.connect(TRADES) as socket:
            await receive(socket)
    assert raised.value.status == 429
    assert raised.value.headers is not None
    assert raised.value.headers["Retry-After"] == "1"


async def test_rest_answers_429_when_it_is_limited() -> None:
    url = "fapi.binance.com/fapi/v1/openInterest"
    async with running("binance-futures") as gateway:
        await make(gateway, "rate-limit", value=3)
        status, body = await gateway.ask(url, symbol="BTCUSDT")
        again, _ = await gateway.ask(url, symbol="BTCUSDT")
    assert (status, body["code"], again) == (429, -1003, 200)


@pytest.mark.parametrize(
    ("exchange", "address", "answer"),
    [
        ("bitmex", "ws.bitmex.com/realtime", {"status": 429}),
        ("deribit", "www.deribit.com/ws/api/v2", {"id": 3}),
        ("coinbase", "ws-feed.exchange.coinbase.com", {"reason": "rate limit exceeded"}),
        ("kraken", "ws.kraken.com/v2", {"error": "Exceeded msg rate"}),
        ("okex-swap", "ws.okx.com:8443/ws/v5/public", {"code": "60014"}),
    ],
)
async def test_socket_answers_as_the_venue_does_when_it_is_limited(
    exchange: str, address: str, answer: dict[str, Any]
) -> None:
    async with running(exchange) as gateway, gateway.connect(address) as socket:
        await make(gateway, "rate-limit", exchange=exchange)
        await socket.send_json({"id": 3, "op": "subscribe", "args": []})
        message = await receive_until(socket, **answer)
    assert exchange != "deribit" or message["error"]["code"] == 10028


async def ends_of_connections(seed: int) -> list[Any]:
    """Return how three connections ended, and after how many messages."""
    simulate = {**FAST, "seed": seed}
    async with running("bitmex", simulate=simulate, faults=("close=0.02",)) as gateway:
        for _ in range(3):
            async with gateway.connect(TRADES) as socket:
                await read_to_end(socket)
        latest = (await gateway.get("faults"))["latest"]
    return [(entry["connection"], entry["messages"], entry["value"]) for entry in latest]


async def test_faults_by_chance_repeat_with_the_seed() -> None:
    first, again = await ends_of_connections(5), await ends_of_connections(5)
    assert len(first) == 3
    assert first == again


async def test_faults_by_the_clock_come_again_and_again() -> None:
    async with running("bitmex", faults=("close:1012=0.1s", "refuse=60s")) as gateway:
        for _ in range(3):
            async with gateway.connect(TRADES) as socket:
                assert await read_to_end(socket) == 1012
        told = await gateway.get("faults")
    assert told["counts"]["close"] >= 3
    assert told["rules"] == ["close:1012=0.1s", "refuse=60s"]


@pytest.mark.parametrize(
    "body", [b"{", b'{"kind":"explode"}', b'{"kind":"close","value":7}', b'{"kind":1}']
)
async def test_fault_that_cannot_be_made_is_refused(body: bytes) -> None:
    async with (
        running("bitmex") as gateway,
        gateway.http.post(f"http://{gateway.place}/faults", data=body) as response,
    ):
        answer = await response.json()
    assert response.status == 400
    assert answer["message"].startswith("Cannot make this fault: ")
