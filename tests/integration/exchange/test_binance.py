import asyncio
from typing import Any

import aiohttp
import pytest

from tests.integration.exchange.clients import Gateway, receive, receive_until, running

PUBLIC = "fstream.binance.com/public/stream"
REST = "fapi.binance.com/fapi/v1"


async def call(socket: aiohttp.ClientWebSocketResponse, method: str, *params: str) -> Any:
    """Call a method and return its answer."""
    await socket.send_json({"method": method, "params": list(params), "id": 7})
    return await receive_until(socket, id=7)


async def test_streams_are_acknowledged_sent_and_ended() -> None:
    async with (
        running("binance-futures") as gateway,
        gateway.connect(PUBLIC) as socket,
    ):
        assert await call(socket, "SUBSCRIBE", "btcusdt@trade") == {"result": None, "id": 7}
        trade = await receive_until(socket, stream="btcusdt@trade")
        assert trade["data"]["s"] == "BTCUSDT"
        assert (await call(socket, "LIST_SUBSCRIPTIONS"))["result"] == ["btcusdt@trade"]
        await call(socket, "UNSUBSCRIBE", "btcusdt@trade")
        await call(socket, "SUBSCRIBE", "ethusdt@bookTicker")
        for _ in range(5):
            assert (await receive(socket))["stream"] == "ethusdt@bookTicker"


@pytest.mark.parametrize(
    ("address", "is_wrapped"),
    [
        ("fstream.binance.com/stream?streams=btcusdt@depth@100ms/ethusdt@markPrice", True),
        ("fstream.binance.com/ws/btcusdt@depth", False),
    ],
)
async def test_address_may_name_the_streams(address: str, is_wrapped: bool) -> None:
    async with running("binance-futures") as gateway, gateway.connect(address) as socket:
        message = await receive(socket)
    assert ("stream" in message) is is_wrapped
    body = message["data"] if is_wrapped else message
    assert body["e"] in ("depthUpdate", "markPriceUpdate")


async def test_streams_of_the_other_path_and_unknown_ones_stay_silent() -> None:
    async with (
        running("binance-futures") as gateway,
        gateway.connect("fstream.binance.com/market/stream") as socket,
    ):
        names = ("btcusdt@depth@0ms", "nopeusdt@ticker", "btcusdt@markPrice@1s")
        assert (await call(socket, "SUBSCRIBE", *names))["result"] is None
        for _ in range(3):
            assert (await receive(socket))["stream"] == "btcusdt@markPrice@1s"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", 3),
        ('{"method":"FOO","id":1}', 2),
        ('{"method":"SUBSCRIBE","params":["btcusdt"],"id":1}', 2),
        ('{"method":"SUBSCRIBE","params":"btcusdt@trade","id":1}', 2),
    ],
)
async def test_request_that_cannot_be_read_is_answered_with_an_error(text: str, code: int) -> None:
    async with running("binance-futures") as gateway, gateway.connect(PUBLIC) as socket:
        await socket.send_str(text)
        assert (await receive(socket))["error"]["code"] == code


async def test_client_that_sends_too_often_is_hung_up_on() -> None:
    # With a clock that stands still, all messages come within one second.
    async with (
        running("binance-futures", monotonic=lambda: 12.0) as gateway,
        gateway.connect(PUBLIC) as socket,
    ):
        for number in range(11):
            await socket.send_json({"method": "LIST_SUBSCRIPTIONS", "id": number})
        for _ in range(10):
            await receive(socket)
        await socket.receive()
        assert socket.close_code == 1008


async def test_rest_answers_and_counts_weight() -> None:
    async with running("binance-futures") as gateway:
        info = await gateway.get(f"{REST}/exchangeInfo")
        assert [entry["symbol"] for entry in info["symbols"]] == ["BTCUSDT", "ETHUSDT"]
        interest = await gateway.get(f"{REST}/openInterest", symbol="ETHUSDT")
        assert interest["symbol"] == "ETHUSDT"
        assert float(interest["openInterest"]) > 0
        depth = await gateway.get(f"{REST}/depth", symbol="BTCUSDT", limit=5)
        assert len(depth["bids"]) == len(depth["asks"]) == 5
        url = f"http://{gateway.place}/{REST}/ping"
        async with gateway.http.get(url) as response:
            assert response.headers["x-mbx-used-weight-1m"] == "5"


@pytest.mark.parametrize(
    ("path", "query", "status", "code"),
    [
        ("depth", {"symbol": "NOPE"}, 400, -1121),
        ("depth", {"symbol": "btcusdt"}, 400, -1121),
        ("depth", {}, 400, -1102),
        ("depth", {"symbol": "BTCUSDT", "limit": "7"}, 400, -4021),
        ("nothing", {}, 404, -5000),
    ],
)
async def test_rest_refuses_as_the_venue_does(
    path: str, query: dict[str, str], status: int, code: int
) -> None:
    async with running("binance-futures") as gateway:
        answered, body = await gateway.ask(f"{REST}/{path}", **query)
    assert (answered, body["code"]) == (status, code)


async def ask_depth(gateway: Gateway) -> tuple[int, str | None]:
    url = f"http://{gateway.place}/{REST}/depth?symbol=BTCUSDT&limit=1000"
    async with gateway.http.get(url) as response:
        await response.read()
        return response.status, response.headers.get("Retry-After")


async def test_used_up_weight_gives_429_with_retry_after() -> None:
    # A clock that stands still: the minute does not end during the test.
    async with running("binance-futures", monotonic=lambda: 12.0) as gateway:
        answers = await asyncio.gather(*(ask_depth(gateway) for _ in range(122)))
    assert sorted(answers) == [(200, None)] * 120 + [(429, "60")] * 2


async def test_server_pings_and_hangs_up_without_a_pong() -> None:
    passed = [0.0]
    async with (
        running("binance-futures", monotonic=lambda: passed[0]) as gateway,
        gateway.connect(PUBLIC) as socket,
    ):
        passed[0] = 181.0
        assert (await socket.receive()).type is aiohttp.WSMsgType.PING
        await socket.pong()
        await call(socket, "LIST_SUBSCRIPTIONS")
        passed[0] = 181.0 + 800.0
        while (message := await socket.receive()).type is aiohttp.WSMsgType.PING:
            pass
        assert message.type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1008


@pytest.mark.parametrize(("query", "digits"), [("", 13), ("?timeUnit=MICROSECOND", 16)])
async def test_spot_times_are_as_precise_as_the_address_asks(query: str, digits: int) -> None:
    address = f"stream.binance.com:9443/ws/btcusdt@trade{query}"
    async with running("binance") as gateway, gateway.connect(address) as socket:
        trade = await receive(socket)
    assert {len(str(trade[name])) for name in ("E", "T")} == {digits}


async def test_spot_books_have_any_number_of_levels() -> None:
    async with running("binance") as gateway:
        book = await gateway.get("api.binance.com/api/v3/depth", symbol="BTCUSDT", limit=7)
        status, answer = await gateway.ask("api.binance.com/api/v3/openInterest", symbol="BTCUSDT")
    assert len(book["bids"]) == 7
    assert (status, answer["code"]) == (404, -5000)
