"""Clients that send nonsense, and many clients at once."""

import asyncio
import socket

import pytest

from tardis_machine.server.exchange.connection import Address, Connection
from tests.integration.exchange.clients import DEADLINE_SECONDS, Gateway, receive_until, running

ADDRESSES = {
    "bitmex": "ws.bitmex.com/realtime",
    "binance-futures": "fstream.binance.com/public/stream",
    "binance": "stream.binance.com/stream",
    "deribit": "www.deribit.com/ws/api/v2",
    "coinbase": "ws-feed.exchange.coinbase.com",
    "kraken": "ws.kraken.com/v2",
    "okex-swap": "ws.okx.com:8443/ws/v5/public",
}
NONSENSE = (
    "",
    "null",
    '["subscribe"]',
    '{"method":[],"op":{},"type":{},"id":{},"req_id":[]}',
    '{"method":"SUBSCRIBE","op":"subscribe","type":"subscribe","params":[1],"args":[2],'
    '"channels":[3],"product_ids":[4]}',
    '{"method":"subscribe","op":"subscribe","type":"subscribe","params":{"channel":"book",'
    '"symbol":[[]],"depth":{}},"args":[{"channel":{},"instId":[]}],"channels":[{"name":{}}]}',
    '{"method":"public/subscribe","params":{"channels":[{}]},"id":[1]}',
)


@pytest.mark.parametrize("exchange", ADDRESSES)
async def test_nonsense_is_answered_and_the_connection_stays(
    exchange: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(exchange) as gateway, gateway.connect(ADDRESSES[exchange]) as client:
        # Not all at once: venues limit how many messages may come per second.
        for text in NONSENSE[:4] if exchange == "binance" else NONSENSE:
            await client.send_str(text)
        await client.send_bytes(b"\x00\x01")
        await client.ping(b"still there")
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (message := await client.receive()).data != b"still there":
                assert isinstance(message.data, str), message
    assert caplog.records == []


async def trade_ids(gateway: Gateway, count: int) -> list[str]:
    address = f"{ADDRESSES['bitmex']}?subscribe=trade:XBTUSD"
    found: list[str] = []
    async with gateway.connect(address) as client:
        while len(found) < count:
            message = await receive_until(client, table="trade", action="insert")
            found += [trade["trdMatchID"] for trade in message["data"]]
    return found


async def test_many_clients_hear_the_same() -> None:
    async with running("bitmex", speed=10) as gateway:
        heard = await asyncio.gather(*(trade_ids(gateway, 40) for _ in range(20)))
        sent = [trade["id"] for trade in (await gateway.get("sent/bitmex/XBTUSD"))["trades"]]
    for ids in heard:
        start = sent.index(ids[0])
        assert sent[start : start + len(ids)] == ids


async def test_client_that_does_not_read_is_hung_up_on() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        address = Address("ws.bitmex.com", "/realtime", {})
        connection = Connection(1, "bitmex", address, transport, lambda _: None, 1_000_000)
        written = 0
        while connection.ended is None:
            assert connection.publish("trade", "x" * 10_000)
            connection.flush()
            written += 10_000
        assert written > 1_000_000
        assert connection.ended == "closed with 1008 slow consumer"
        assert not connection.publish("trade", "x")
        transport.abort()
