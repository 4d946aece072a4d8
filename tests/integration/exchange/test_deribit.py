from typing import Any

import aiohttp
import pytest

from tests.integration.exchange.clients import receive, receive_until, running

ADDRESS = "www.deribit.com/ws/api/v2"
LOGIN = {"grant_type": "client_credentials", "client_id": "a", "client_secret": "b"}


async def call(socket: aiohttp.ClientWebSocketResponse, method: str, **params: Any) -> Any:
    """Call a method and return its answer."""
    request = {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}
    await socket.send_json(request)
    return await receive_until(socket, id=5)


async def test_channels_start_with_book_and_ticker_and_end() -> None:
    names = ["book.BTC-PERPETUAL.100ms", "ticker.BTC-PERPETUAL.100ms"]
    async with running("deribit") as gateway, gateway.connect(ADDRESS) as socket:
        answer = await call(socket, "public/subscribe", channels=[*names, "perpetual.X.100ms"])
        assert answer["result"] == [*names, "perpetual.X.100ms"]
        book = (await receive(socket))["params"]
        assert (book["channel"], book["data"]["type"]) == (names[0], "snapshot")
        ticker = (await receive(socket))["params"]
        assert ticker["channel"] == names[1]
        assert ticker["data"]["mark_price"] > 0
        assert (await call(socket, "public/unsubscribe", channels=names))["result"] == names
        assert (await call(socket, "public/unsubscribe_all"))["result"] == "ok"
        assert (await call(socket, "public/test"))["result"] == {"version": "1.2.26"}


async def test_unknown_instrument_is_left_out_of_the_answer() -> None:
    names = ["trades.NOPE.100ms", "trades.BTC-PERPETUAL.100ms"]
    async with running("deribit") as gateway, gateway.connect(ADDRESS) as socket:
        answer = await call(socket, "public/subscribe", channels=names)
    assert answer["result"] == names[1:]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("public/subscribe", {"channels": ["foo.BTC-PERPETUAL.100ms"]}, -32602),
        ("public/subscribe", {"channels": "book"}, -32602),
        ("public/subscribe", {"channels": ["book.BTC-PERPETUAL.raw"]}, 13778),
        ("private/subscribe", {"channels": ["book.BTC-PERPETUAL.100ms"]}, 13009),
        ("public/set_heartbeat", {"interval": 5}, -32602),
        ("public/auth", {"client_id": "a"}, 13004),
        ("public/dance", {}, -32601),
    ],
)
async def test_call_that_is_refused_has_an_error(
    method: str, params: dict[str, Any], code: int
) -> None:
    async with running("deribit") as gateway, gateway.connect(ADDRESS) as socket:
        answer = await call(socket, method, **params)
    assert answer["error"]["code"] == code


async def test_login_opens_raw_channels() -> None:
    async with running("deribit") as gateway, gateway.connect(ADDRESS) as socket:
        assert (await call(socket, "public/auth", **LOGIN))["result"]["token_type"] == "bearer"
        names = ["book.BTC-PERPETUAL.raw"]
        assert (await call(socket, "private/subscribe", channels=names))["result"] == names
        assert (await receive(socket))["params"]["channel"] == names[0]


async def test_test_request_must_be_answered() -> None:
    passed = [0.0]
    async with (
        running("deribit", monotonic=lambda: passed[0]) as gateway,
        gateway.connect(ADDRESS) as socket,
    ):
        assert (await call(socket, "public/set_heartbeat", interval=10))["result"] == "ok"
        passed[0] = 11.0
        assert (await receive(socket))["params"] == {"type": "heartbeat"}
        assert (await receive(socket))["params"] == {"type": "test_request"}
        await call(socket, "public/test")
        passed[0] = 22.0
        await receive_until(socket, params={"type": "test_request"})
        passed[0] = 33.0
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
