"""`stream()` and `stream_normalized()`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

import tardis_machine
from tardis_machine import Filter, RequestError
from tests.contract.live_venues import BITMEX
from tests.servers.exchanges import Exchanges, running_exchanges, until

TRADES = [Filter("trade", ("XBTUSD",))]


@pytest.fixture
async def exchanges() -> AsyncIterator[Exchanges]:
    async with running_exchanges() as running:
        yield running


async def first(stream: AsyncIterator[Any], count: int) -> list[Any]:
    async with asyncio.timeout(30):
        return [await anext(stream) for _ in range(count)]


async def test_records_of_now(exchanges: Exchanges) -> None:
    stream = tardis_machine.stream_normalized(
        "bitmex",
        symbols=["XBTUSD"],
        data_types=["trade", "trade_bar_1ticks"],
        exchange_gateway=exchanges.gateway,
    )
    async with stream:
        wanted = asyncio.ensure_future(first(stream, 2))
        socket = await exchanges.socket(1)
        await socket.send_compact(BITMEX.trade("XBTUSD"))
        trade, bar = await wanted
        assert (trade.type, bar.type, bar.open) == ("trade", "trade_bar", 100.5)
    await until(lambda: socket.is_gone)


async def test_errors_and_disconnects_are_records(exchanges: Exchanges) -> None:
    exchanges.refusals = [503]
    stream = tardis_machine.stream_normalized(
        "bitmex",
        symbols=["XBTUSD"],
        data_types=["trade"],
        with_errors=True,
        with_disconnects=True,
        exchange_gateway=exchanges.gateway,
    )
    async with stream:
        assert [record.type for record in await first(stream, 2)] == ["error", "disconnect"]


async def test_messages_as_they_come(exchanges: Exchanges) -> None:
    errors: list[Any] = []
    stream = tardis_machine.stream(
        "bitmex",
        filters=TRADES,
        with_disconnects=True,
        on_error=errors.append,
        exchange_gateway=exchanges.gateway,
    )
    async with aclosing(stream):
        wanted = asyncio.ensure_future(first(stream, 3))
        socket = await exchanges.socket(1)
        await socket.send('{"info": "hello"}', '{"table":"trade","data":[]}', "oops")
        hello, table, gap = await wanted
        assert (hello.message, table.message) == (
            b'{"info": "hello"}',
            b'{"table":"trade","data":[]}',
        )
        assert len(hello.local_timestamp) == len("2026-09-01T00:00:00.0000000Z")
        assert hello.local_time_us > 0
        assert gap is None
        assert "oops" in errors[0].details
    await until(lambda: socket.is_gone)


async def test_disconnects_are_left_out_unless_asked_for(exchanges: Exchanges) -> None:
    stream = tardis_machine.stream("bitmex", filters=TRADES, exchange_gateway=exchanges.gateway)
    async with aclosing(stream):
        wanted = asyncio.ensure_future(first(stream, 1))
        await (await exchanges.socket(1)).close(1000)
        await (await exchanges.socket(2)).send('{"info":"again"}')
        [message] = await wanted
        assert message.message == b'{"info":"again"}'


@pytest.mark.parametrize(
    ("exchange", "filters", "text"),
    [
        ("nope", TRADES, "exchange"),
        ("bitmex", [Filter("nope")], "channel"),
        ("binance-jersey", [Filter("trade", ("X",))], "cannot be streamed"),
    ],
)
def test_what_cannot_be_streamed_is_refused_at_once(
    exchange: str, filters: list[Filter], text: str
) -> None:
    with pytest.raises(RequestError, match=text):
        tardis_machine.stream(exchange, filters=filters)


def test_misspelt_data_type_is_refused_with_the_nearest() -> None:
    with pytest.raises(RequestError, match="Did you mean 'trade'"):
        tardis_machine.stream_normalized("bitmex", data_types=["trad"])
