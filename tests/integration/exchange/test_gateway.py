"""The port itself: what it knows of exchanges, books, trades and clients."""

import asyncio
import socket as sockets
from typing import Any

import aiohttp
import pytest

from tardis_machine.model.errors import SettingsError, UnknownNameError
from tests.integration.exchange.clients import Gateway, Rebuilt, receive_until, running, until

TRADES = "ws.bitmex.com/realtime?subscribe=trade:XBTUSD"


async def has_reached(gateway: Gateway, sequence: int) -> bool:
    return bool((await gateway.get("truth/bitmex/XBTUSD"))["sequence"] >= sequence)


async def read_to_end(socket: aiohttp.ClientWebSocketResponse) -> None:
    async for _ in socket:
        pass


async def left_of(gateway: Gateway) -> Any:
    return (await gateway.get("connections"))["left"]


async def test_status_tells_hosts_and_symbols() -> None:
    async with running("bitmex", "coinbase") as gateway, gateway.connect(TRADES):
        status = await gateway.get("status")
    assert list(status["exchanges"]) == ["bitmex", "coinbase"]
    assert status["exchanges"]["bitmex"] == {
        "symbols": ["XBTUSD", "ETHUSD"],
        "webSocketHosts": ["ws.bitmex.com", "www.bitmex.com"],
        "httpHosts": [],
        "connections": 1,
    }


async def test_unknown_host_is_not_found() -> None:
    async with running("bitmex") as gateway:
        status, answer = await gateway.ask("stream.example.com/realtime")
    assert status == 404
    assert answer["hosts"]["webSocket"] == ["ws.bitmex.com", "www.bitmex.com"]


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("truth/nope/XBTUSD", {}, 404),
        ("truth/bitmex/NOPE", {}, 404),
        ("truth/bitmex/XBTUSD", {"seq": "x"}, 400),
        ("truth/bitmex/XBTUSD", {"timestamp": "yesterday"}, 400),
        ("truth/bitmex/XBTUSD", {"seq": 10**9}, 404),
        ("truth/bitmex/XBTUSD", {"timestamp": "2020-01-01"}, 410),
    ],
)
async def test_truth_that_is_not_known_is_refused(
    path: str, query: dict[str, object], status: int
) -> None:
    async with running("bitmex") as gateway:
        answered, body = await gateway.ask(path, **query)
    assert answered == status
    assert body["message"]


async def test_truth_says_how_far_back_it_goes() -> None:
    simulate = {"rate": 500.0}
    async with running("bitmex", simulate=simulate, truth_updates=10) as gateway:
        await until(lambda: has_reached(gateway, 40))
        told = await gateway.get("truth/bitmex/xbtusd")
        status, refused = await gateway.ask("truth/bitmex/xbtusd", seq=5)
    assert told["latest"]["sequence"] - told["oldest"]["sequence"] == 10
    assert (status, refused["truthUpdates"]) == (410, 10)


async def test_trades_of_a_client_are_those_that_were_sent() -> None:
    rebuilt = Rebuilt("bitmex")
    async with running("bitmex", speed=5) as gateway:
        async with gateway.connect(TRADES) as socket:
            while len(rebuilt.records) < 10:
                rebuilt.take((await socket.receive()).data.encode())
        sent = await gateway.get("sent/bitmex/XBTUSD", trades=20_000)
        left = await until(lambda: left_of(gateway))
    trades = {trade["id"]: trade for trade in sent["trades"]}
    for record in rebuilt.records:
        trade = trades[record.id]
        assert (record.price, record.amount) == (float(trade["price"]), float(trade["amount"]))
        assert record.side == trade["side"]
        assert trade["timestamp"].startswith(record.timestamp[:-1])
    assert sent["channels"]["trade"] > 0
    assert left[0]["trades"]["XBTUSD"]["first"] == rebuilt.records[0].id


async def test_same_seed_plays_the_same_market_for_any_clients() -> None:
    simulate = {"start": "2024-03-01", "symbols": ("XBTUSD",)}
    books = []
    for with_client in (True, False):
        async with running("bitmex", simulate=simulate, speed=20) as gateway:
            if with_client:
                address = "ws.bitmex.com/realtime?subscribe=trade,orderBookL2,quote,instrument"
                async with gateway.connect(address) as socket:
                    await receive_until(socket, table="trade", action="insert")
            await until(lambda: has_reached(gateway, 400))
            books.append(await gateway.truth("bitmex", "XBTUSD", seq=400))
    assert books[0] == books[1]


async def test_clients_are_told_that_the_exchange_ends() -> None:
    async with aiohttp.ClientSession() as http:
        async with running("bitmex") as gateway:
            socket = await http.ws_connect(f"ws://{gateway.place}/{TRADES}")
            await receive_until(socket, table="trade")
            reading = asyncio.create_task(read_to_end(socket))
        await reading
    assert socket.close_code == 1001


async def test_port_in_use_is_a_setting_to_change() -> None:
    with sockets.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(SettingsError, match=f"Cannot serve on 127.0.0.1:{port}"):
            async with running("bitmex", serve=port):
                pass


async def test_unknown_exchange_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'bitmex'"):
        async with running("bitmx"):
            pass
