"""Exchanges that say what nobody expects, or nothing at all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tardis_machine.bronze.series import Origin
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.records import BlankTrade, Record, Trade, TradeBar
from tardis_machine.model.requests import StreamRequest
from tardis_machine.model.time import DAY_US, ms_text, parse_us
from tardis_machine.session.live.plan import plan_stream
from tardis_machine.session.live.publishing import LivePublisher
from tardis_machine.session.live.stream import LiveClient
from tardis_machine.session.live.views import LiveViews
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.live.source import LiveSource
from tardis_machine.telemetry.clock import system_clock
from tests.contract.live_venues import BITMEX, binance_venue
from tests.servers.exchanges import Exchanges, running_exchanges, until
from tests.unit.session.test_live import client, collect, source
from tests.unit.sinks.publisher.test_client import client_for

ALL = {"with_error_messages": True, "with_disconnect_messages": True}


@pytest.fixture
async def exchanges() -> AsyncIterator[Exchanges]:
    async with running_exchanges() as running:
        yield running


async def test_unknown_channels_are_passed_over(exchanges: Exchanges) -> None:
    records: list[Record] = []
    async with source(exchanges) as live:
        task = asyncio.create_task(collect(client(live, ALL), records))
        socket = await exchanges.socket(1)
        foreign = [{"table": f"new-{number}", "data": [{"x": 1}]} for number in range(500)]
        await socket.send_compact(*foreign, BITMEX.trade("XBTUSD"))
        await until(lambda: records)
        task.cancel()
    assert [type(record) for record in records] == [Trade]
    assert len(exchanges.sockets) == 1


@pytest.mark.parametrize("days", [-2, 2])
async def test_clock_of_the_venue_is_passed_on_and_nothing_depends_on_it(
    days: int, exchanges: Exchanges
) -> None:
    records: list[Record] = []
    before = ms_text(system_clock() // 1000)
    theirs = ms_text((system_clock() + days * DAY_US) // 1000)
    async with source(exchanges) as live:
        task = asyncio.create_task(collect(client(live, ALL), records))
        socket = await exchanges.socket(1)
        message = BITMEX.trade("XBTUSD")
        message["data"][0]["timestamp"] = theirs
        await socket.send_compact(message)
        await until(lambda: records)
        task.cancel()
    [trade] = records
    assert isinstance(trade, Trade)
    assert trade.timestamp == theirs
    assert trade.local_timestamp >= before
    assert parse_us(trade.local_timestamp) <= system_clock()


async def test_server_that_never_answers_is_told_and_tried_again() -> None:
    accepted: list[asyncio.StreamWriter] = []

    def never(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    gateway = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    records: list[Record] = []
    async with server, LiveSource(LiveSettings(exchange_gateway=gateway)) as live:
        task = asyncio.create_task(collect(client(live, ALL), records))
        await until(lambda: len(accepted) > 1, seconds=120)
        task.cancel()
    for writer in accepted:
        writer.close()
    assert [type(record) for record in records[:2]] == [FeedError, Disconnect]


async def test_other_event_among_trades_is_shown_but_neither_published_nor_computed_from(
    exchanges: Exchanges, tmp_path: Path
) -> None:
    venue = binance_venue("binance", "BTCUSDT", "ETHBTC")
    other = {"stream": "btcusdt@trade", "data": {"e": "unknown", "s": "BTCUSDT"}}
    request = StreamRequest(
        exchange="binance", symbols=["BTCUSDT"], data_types=["trade", "trade_bar_1ticks"]
    )
    records: list[Record] = []
    with client_for(tmp_path) as made:
        publisher = LivePublisher(made.client.stream(Origin.REALTIME, {}))
        async with source(exchanges, tap=publisher.tap) as live:
            stream = LiveClient(plan_stream([request], {}), LiveViews(live, publisher))
            task = asyncio.create_task(collect(stream, records))
            socket = await exchanges.socket(1)
            await socket.send_compact(other, venue.trade("BTCUSDT"))
            await until(lambda: len(records) == 3)
            task.cancel()
        publisher.close()
    assert [type(record) for record in records] == [BlankTrade, Trade, TradeBar]
    assert publisher.records == 2
