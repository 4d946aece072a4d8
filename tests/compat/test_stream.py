"""`/ws-stream-normalized`: live records, control messages, and how a stream ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from tests.compat.conftest import Client
from tests.contract.live_venues import BITMEX, LiveVenue, okx_venue
from tests.servers.exchanges import Exchanges, VenueSocket, running_exchanges, until
from tests.soak.stalled import ask, head

PATH = "/ws-stream-normalized"
TRADES = {"exchange": "bitmex", "symbols": ["XBTUSD"], "dataTypes": ["trade"]}


@pytest.fixture
async def exchanges() -> AsyncIterator[Exchanges]:
    async with running_exchanges() as running:
        yield running


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def server_options(exchanges: Exchanges, request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"exchange_gateway": exchanges.gateway, "workers": request.param}


class Stream:
    """An open stream of a client."""

    def __init__(self, socket: "aiohttp.ClientWebSocketResponse[bool]") -> None:
        self.socket = socket

    async def next(self) -> Any:
        message = await self.socket.receive(timeout=30)
        assert message.type is aiohttp.WSMsgType.TEXT, message
        return json.loads(message.data)


async def open_stream(client: Client, *entries: Any) -> Stream:
    params = {"options": json.dumps(entries)}
    return Stream(await client.session.ws_connect(client.machine.ws_url + PATH, params=params))


async def wait_until_joined(socket: VenueSocket, *streams: Stream) -> None:
    """Send trades until every stream got one: an open stream may not follow the feed yet."""
    waiting = [asyncio.ensure_future(stream.next()) for stream in streams]
    while not all(each.done() for each in waiting):
        await socket.send_compact(BITMEX.trade("XBTUSD"))
        await asyncio.sleep(0.02)
    assert {each.result()["type"] for each in waiting} == {"trade"}


async def test_records_come_as_text_frames(client: Client, exchanges: Exchanges) -> None:
    stream = await open_stream(client, TRADES)
    socket = await exchanges.socket(1)
    await socket.send_compact(BITMEX.trade("XBTUSD"), BITMEX.trade("ETHUSD"))
    await socket.send_compact(BITMEX.trade("XBTUSD"))
    first, second = await stream.next(), await stream.next()
    assert [first["type"], first["symbol"], second["symbol"]] == ["trade", "XBTUSD", "XBTUSD"]
    assert len(first["localTimestamp"]) == len("2026-09-01T00:00:00.000Z")
    await stream.socket.close()
    await until(lambda: socket.is_gone)


async def test_clients_share_one_connection(client: Client, exchanges: Exchanges) -> None:
    streams = [await open_stream(client, TRADES) for _ in range(3)]
    socket = await exchanges.socket(1)
    await wait_until_joined(socket, *streams)
    assert len(exchanges.sockets) == 1
    await streams.pop().socket.close()
    await socket.send_compact(BITMEX.trade("XBTUSD"))
    assert (await streams[0].next())["type"] == "trade"
    for stream in streams:
        await stream.socket.close()
    await until(lambda: socket.is_gone)


async def test_errors_and_disconnects_are_shown_to_who_asked(
    client: Client, exchanges: Exchanges
) -> None:
    curious = {**TRADES, "withErrorMessages": True, "withDisconnectMessages": True}
    stream, quiet = await open_stream(client, curious), await open_stream(client, TRADES)
    socket = await exchanges.socket(1)
    await wait_until_joined(socket, stream, quiet)
    await socket.send_compact(BITMEX.error)
    while (error := await stream.next())["type"] == "trade":
        pass
    disconnect = await stream.next()
    assert list(error) == [
        *("type", "exchange", "localTimestamp", "details", "subSequentErrorsCount")
    ]
    assert error["details"].startswith("Received error message: {")
    assert disconnect["symbols"] == ["XBTUSD"]
    await (await exchanges.socket(2)).send_compact(BITMEX.trade("XBTUSD"))
    assert (await stream.next())["type"] == (await quiet.next())["type"] == "trade"


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        ([], 1000, "WS stream-normalized finished"),
        ("no json", 1011, "Error: Invalid 'options' parameter"),
        ([{**TRADES, "exchange": "nope"}], 1011, "Error: normalizeTrades: nope not supported"),
        ([{**TRADES, "dataTypes": ["nothing"]}], 1011, "Error: Can't normalize data without any"),
        (
            [{"exchange": "okex", "dataTypes": ["trade"]}],
            1011,
            "Error: okex requires explicitly specified symbols",
        ),
        ([{**TRADES, "timeoutIntervalMS": "x"}], 1011, 'Error: Invalid "timeoutIntervalMS"'),
    ],
)
async def test_what_cannot_be_streamed_ends_at_once(
    client: Client, exchanges: Exchanges, options: Any, code: int, reason: str
) -> None:
    received = await client.websocket(PATH, options=options)
    assert (received.code, received.messages) == (code, [])
    assert received.reason.startswith(reason)
    assert exchanges.sockets == []


async def test_one_bad_entry_leaves_nothing_behind(client: Client, exchanges: Exchanges) -> None:
    received = await client.websocket(
        PATH, options=[TRADES, {"exchange": "kraken", "dataTypes": ["trade"]}]
    )
    assert received.code == 1011
    await asyncio.sleep(0.1)
    await until(lambda: all(socket.is_gone for socket in exchanges.sockets))


async def test_feed_is_counted(client: Client, exchanges: Exchanges) -> None:
    stream = await open_stream(client, TRADES)
    socket = await exchanges.socket(1)
    await socket.send_compact(BITMEX.trade("XBTUSD"))
    await stream.next()
    wanted = 'tardis_machine_live_messages_total{channel="trade",exchange="bitmex"} 1.0'

    async def shown() -> str:
        return (await client.get("/metrics"))[2]

    async with asyncio.timeout(30):
        while wanted not in (metrics := await shown()):  # noqa: ASYNC110 - read over HTTP
            await asyncio.sleep(0.1)
    assert 'tardis_machine_live_connections{exchange="bitmex"} 1.0' in metrics
    assert 'tardis_machine_live_last_message_timestamp_seconds{channel="trade"' in metrics
    assert 'tardis_machine_server_active_streams{route="/ws-stream-normalized"} 1.0' in metrics


class TestSmallBudget:
    """A server that keeps little for clients of live streams."""

    @pytest.fixture
    def server_options(self, exchanges: Exchanges) -> dict[str, Any]:
        return {"exchange_gateway": exchanges.gateway, "stream_queue_max_bytes": 2_000_000}

    async def test_client_that_reads_nothing_is_let_go_and_counted_at_once(
        self, client: Client, exchanges: Exchanges
    ) -> None:
        target = f"{PATH}?options={quote(json.dumps([TRADES]))}"
        port = int(client.machine.ws_url.rpartition(":")[2])
        peer, status = await ask(port, head(target, upgrade=True))
        try:
            assert status == "101"
            socket = await exchanges.socket(1)
            dropped = f'tardis_machine_server_slow_clients_total{{route="{PATH}"}} 1.0'
            async with asyncio.timeout(60):
                # Nobody asks the exchange for it any more, although it is still connected.
                while not socket.is_gone:
                    # The kernel takes megabytes, and the server passes them on meanwhile.
                    with suppress(ConnectionError):
                        await socket.send_compact(*[BITMEX.trade("XBTUSD")] * 100)
                    await asyncio.sleep(0.01)
                while dropped not in (await client.get("/metrics"))[2]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        finally:
            peer.close()


async def lose_trades_of(
    venue: LiveVenue, client: Client, exchanges: Exchanges, book_url: str
) -> tuple[Stream, Any]:
    """Begin a book on one socket of a venue and lose the other; return the stream, the socket."""
    entry = {
        "exchange": venue.exchange,
        "symbols": [venue.symbols[0]],
        "dataTypes": ["trade_bar_1ticks", "quote"],
        "withDisconnectMessages": True,
    }
    stream = await open_stream(client, entry)
    await until(lambda: len(exchanges.sockets) == 2)
    [books] = [socket for socket in exchanges.sockets if book_url in socket.url]
    [trades] = [socket for socket in exchanges.sockets if socket is not books]
    await until(lambda: books.frames and trades.frames)
    await books.send_compact(venue.snapshot(venue.symbols[0], 100))
    assert (await stream.next())["name"] == "quote"
    await trades.close(1000)
    assert (await stream.next())["type"] == "disconnect"
    return stream, books


async def test_lost_socket_leaves_the_books_of_others_alone(
    client: Client, exchanges: Exchanges
) -> None:
    venue = okx_venue("okex", "BTC-USDT", "ETH-USDT")
    stream, books = await lose_trades_of(venue, client, exchanges, "v5/public")
    await books.send_compact(venue.update("BTC-USDT", 100, 101))
    record = await stream.next()
    assert (record["name"], record["bids"]) == ("quote", [{"price": 101, "amount": 1}])
