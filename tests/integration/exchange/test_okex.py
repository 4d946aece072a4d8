import zlib
from itertools import chain, zip_longest
from typing import Any

import aiohttp
import pytest

from tests.integration.exchange.clients import Rebuilt, receive, receive_until, running

PUBLIC = "ws.okx.com:8443/ws/v5/public"
BUSINESS = "ws.okx.com:8443/ws/v5/business"
SWAP = "BTC-USDT-SWAP"
BOOKS_OF_LOGINS = '{"op":"subscribe","args":[{"channel":"books-l2-tbt","instId":"BTC-USDT-SWAP"}]}'


async def subscribe(socket: aiohttp.ClientWebSocketResponse, *arguments: dict[str, str]) -> None:
    await socket.send_json({"op": "subscribe", "args": list(arguments)})


async def test_arguments_are_acknowledged_start_with_their_state_and_end() -> None:
    books = {"channel": "books", "instId": SWAP}
    async with running("okex-swap") as gateway, gateway.connect(PUBLIC) as socket:
        await subscribe(socket, books)
        assert (await receive(socket))["arg"] == books
        snapshot = await receive(socket)
        assert (snapshot["arg"], snapshot["action"]) == (books, "snapshot")
        update = await receive_until(socket, action="update")
        assert update["data"][0]["prevSeqId"] == snapshot["data"][0]["seqId"]
        await socket.send_json({"op": "unsubscribe", "args": [books]})
        await receive_until(socket, event="unsubscribe")
        await socket.send_str("ping")
        while (message := await socket.receive()).data != "pong":
            assert "books" in message.data


async def test_checksum_is_that_of_the_best_levels() -> None:
    async with running("okex-swap") as gateway, gateway.connect(PUBLIC) as socket:
        await subscribe(socket, {"channel": "books", "instId": SWAP})
        book = (await receive_until(socket, action="snapshot"))["data"][0]
    pairs = zip_longest(book["bids"][:25], book["asks"][:25])
    levels = [f"{level[0]}:{level[1]}" for level in chain.from_iterable(pairs) if level]
    assert book["checksum"] % 2**32 == zlib.crc32(":".join(levels).encode())


async def test_other_channels_bring_tickers_that_our_mapper_joins() -> None:
    channels = ("tickers", "mark-price", "funding-rate", "open-interest")
    rebuilt = Rebuilt("okex-swap", ("derivative_ticker", "book_ticker", "liquidation"))
    async with running("okex-swap", speed=20) as gateway, gateway.connect(PUBLIC) as socket:
        await subscribe(
            socket,
            {"channel": "index-tickers", "instId": "BTC-USDT"},
            {"channel": "bbo-tbt", "instId": SWAP},
            {"channel": "liquidation-orders", "instType": "SWAP"},
            *({"channel": name, "instId": SWAP} for name in channels),
        )
        found: set[str] = set()
        while found != {"derivative_ticker", "book_ticker", "liquidation"}:
            rebuilt.take((await socket.receive()).data.encode())
            found = {record.__struct_config__.tag for record in rebuilt.records}
    tickers: list[Any] = [record for record in rebuilt.records if hasattr(record, "mark_price")]
    complete = tickers[-1]
    for field in ("last_price", "open_interest", "funding_rate", "index_price", "mark_price"):
        assert getattr(complete, field) is not None, field


async def test_trades_are_on_the_business_socket() -> None:
    trades = {"channel": "trades-all", "instId": SWAP}
    async with running("okex-swap", speed=5) as gateway:
        async with gateway.connect(PUBLIC) as socket:
            await subscribe(socket, trades)
            refused = await receive(socket)
        async with gateway.connect(BUSINESS) as socket:
            await subscribe(socket, trades)
            await receive(socket)
            assert (await receive(socket))["data"][0]["instId"] == SWAP
    assert (refused["event"], refused["code"]) == ("error", "60018")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"op":"subscribe","args":[{"channel":"books","instId":"NOPE"}]}', "60018"),
        ('{"op":"subscribe","args":[{"channel":"foo","instId":"BTC-USDT-SWAP"}]}', "60018"),
        (
            '{"op":"subscribe","args":[{"channel":"books-l2-tbt","instId":"BTC-USDT-SWAP"}]}',
            "60011",
        ),
        ('{"op":"subscribe"}', "60012"),
        ('{"op":"dance","args":[]}', "60012"),
        ('{"op":"login","args":[{}]}', "60009"),
        ("{", "60012"),
    ],
)
async def test_request_that_is_refused_has_a_code(text: str, code: str) -> None:
    async with running("okex-swap") as gateway, gateway.connect(PUBLIC) as socket:
        await socket.send_str(text)
        answer = await receive(socket)
    assert (answer["event"], answer["code"]) == ("error", code)


async def test_login_opens_tick_by_tick_books() -> None:
    login = {"apiKey": "k", "passphrase": "p", "timestamp": "1", "sign": "s"}
    async with running("okex-swap") as gateway, gateway.connect(PUBLIC) as socket:
        await socket.send_json({"op": "login", "args": [login]})
        assert (await receive(socket))["event"] == "login"
        await subscribe(socket, {"channel": "books-l2-tbt", "instId": SWAP})
        pushed = await receive_until(socket, action="snapshot")
    assert pushed["arg"]["channel"] == "books-l2-tbt"
