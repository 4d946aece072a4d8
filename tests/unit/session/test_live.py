"""One client of a live stream: its queue, and how a stream ends by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.records import Record, Trade
from tardis_machine.model.requests import StreamRequest
from tardis_machine.session.live.plan import plan_stream
from tardis_machine.session.live.stream import LiveClient, SlowConsumerError, TooManyFailuresError
from tardis_machine.session.live.views import LiveViews
from tardis_machine.sources.context import Timing
from tardis_machine.sources.live.listeners import FeedKey, FeedListener
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.live.source import LiveSource
from tests.contract.live_venues import BITMEX, DERIBIT, binance_venue
from tests.servers.exchanges import Exchanges, VenueSocket, running_exchanges, until


async def no_wait(_: float) -> None:
    """Wait for nothing but the loop."""
    await asyncio.sleep(0)


@pytest.fixture
async def exchanges() -> AsyncIterator[Exchanges]:
    async with running_exchanges() as running:
        yield running


def source(exchanges: Exchanges, **options: Any) -> LiveSource:
    timing = options.pop("timing", Timing(sleep=no_wait))
    tap = options.pop("tap", None)
    settings = LiveSettings(exchange_gateway=exchanges.gateway, **options)
    return LiveSource(settings, timing=timing, taps=[tap] if tap else [])


def client(live: LiveSource, *entries: dict[str, Any]) -> LiveClient:
    fields = {"exchange": "bitmex", "symbols": ["XBTUSD"], "data_types": ["trade"]}
    requests = [StreamRequest(**{**fields, **entry}) for entry in entries or ({},)]
    return LiveClient(plan_stream(requests, {}), LiveViews(live))


async def collect(stream: LiveClient, records: list[Record]) -> None:
    async with aclosing(stream.chunks()) as chunks:
        async for ready in chunks:
            records += [record for chunk in ready for record in chunk.records]


async def test_fifty_failures_in_a_row_end_the_stream(exchanges: Exchanges) -> None:
    exchanges.refusals = [500] * 60
    records: list[Record] = []
    async with source(exchanges) as live:
        with pytest.raises(TooManyFailuresError, match="connecting to  bitmex WS API"):
            await collect(client(live, {"with_error_messages": True}), records)
    errors = [record for record in records if isinstance(record, FeedError)]
    assert [error.subsequent_errors_count for error in errors] == [*range(1, 51)]


async def test_data_ends_the_series_of_failures(exchanges: Exchanges) -> None:
    exchanges.refusals = [500] * 3

    async def send_once(socket: VenueSocket) -> None:
        await socket.send_compact(BITMEX.trade("XBTUSD"), BITMEX.error)

    exchanges.on_open = send_once
    records: list[Record] = []
    async with source(exchanges) as live:
        task = asyncio.create_task(collect(client(live, {"with_error_messages": True}), records))
        await until(lambda: sum(isinstance(record, Trade) for record in records) >= 2)
        task.cancel()
    counts = [record.subsequent_errors_count for record in records if isinstance(record, FeedError)]
    assert counts[:4] == [1, 2, 3, 1]


async def test_slow_consumer_is_cut_off(exchanges: Exchanges) -> None:
    async with source(exchanges, stream_queue_max_records=10) as live:
        stream = client(live).chunks()
        first = asyncio.ensure_future(anext(stream))
        socket = await exchanges.socket(1)
        await socket.send_compact(BITMEX.trade("XBTUSD"))
        await first
        await socket.send_compact(*[BITMEX.trade("XBTUSD")] * 50)
        await asyncio.sleep(0.2)
        with pytest.raises(SlowConsumerError, match=r"stream-queue-max-records \(10\)"):
            await anext(stream)
        await until(lambda: socket.is_gone)


async def read_seldom(stream: AsyncIterator[Any], socket: VenueSocket) -> None:
    """Read only after many messages came."""
    async with asyncio.timeout(120):
        while True:
            for _ in range(20):
                await socket.send_compact(*[BITMEX.trade("XBTUSD")] * 20)
                await asyncio.sleep(0.01)
            await anext(stream)


async def test_slow_consumers_share_a_budget_of_bytes(exchanges: Exchanges) -> None:
    async with source(exchanges, stream_queue_max_bytes=20_000) as live:
        stream = client(live).chunks()
        first = asyncio.ensure_future(anext(stream))
        socket = await exchanges.socket(1)
        await socket.send_compact(BITMEX.trade("XBTUSD"))
        await first
        with pytest.raises(SlowConsumerError, match=r"stream-queue-max-bytes \(20000\)"):
            await read_seldom(stream, socket)
        await until(lambda: socket.is_gone)


async def test_server_that_accepts_and_closes_is_not_asked_in_a_loop(exchanges: Exchanges) -> None:
    sleeps: list[float] = []

    async def note(seconds: float) -> None:
        sleeps.append(seconds)
        await asyncio.sleep(0)

    async def close(socket: VenueSocket) -> None:
        await socket.close(1000)

    exchanges.on_open = close
    records: list[Record] = []
    timing = Timing(sleep=note, random=lambda: 1.0)
    async with source(exchanges, timing=timing) as live:
        task = asyncio.create_task(
            collect(client(live, {"with_disconnect_messages": True}), records)
        )
        await until(lambda: len(sleeps) >= 10)
        task.cancel()
    assert [round(seconds, 3) for seconds in sleeps[:6]] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert {type(record) for record in records} == {Disconnect}


async def test_flood_of_bad_messages_is_told_once_and_counted(exchanges: Exchanges) -> None:
    records: list[Record] = []
    async with source(exchanges) as live:
        task = asyncio.create_task(collect(client(live, {"with_error_messages": True}), records))
        socket = await exchanges.socket(1)
        await socket.send_compact(*[BITMEX.half("XBTUSD")] * 200, BITMEX.trade("XBTUSD"))
        await until(lambda: records and isinstance(records[-1], Trade))
        task.cancel()
    assert len(records) < 10
    assert len(exchanges.sockets) == 1


async def test_entries_of_one_exchange_count_a_failure_once(exchanges: Exchanges) -> None:
    exchanges.refusals = [500]
    entries = [
        {"with_error_messages": True, "with_disconnect_messages": True},
        {"symbols": ["ETHUSD"], "with_error_messages": True},
    ]
    records: list[Record] = []
    async with source(exchanges) as live:
        task = asyncio.create_task(collect(client(live, *entries), records))
        socket = await exchanges.socket(1)
        await until(lambda: len(records) >= 3)
        task.cancel()
        assert socket.url
    shown = [record for record in records if isinstance(record, FeedError)]
    assert [error.subsequent_errors_count for error in shown] == [1]
    lost = [record.symbols for record in records if isinstance(record, Disconnect)]
    assert lost == [["XBTUSD"], ["ETHUSD"]]


async def test_other_timeout_has_a_feed_of_its_own(exchanges: Exchanges) -> None:
    async with source(exchanges) as live:
        tasks = [
            asyncio.create_task(collect(client(live, {"timeout_interval_ms": timeout}), []))
            for timeout in (None, 60_000, None)
        ]
        await exchanges.socket(2)
        await asyncio.sleep(0.1)
        assert len(exchanges.sockets) == 2
        for task in tasks:
            task.cancel()


class Tap(FeedListener):
    """Keeps everything a feed brings."""

    wants_messages = True

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.messages: list[bytes] = []
        self.lost_filters: list[Any] = []

    def take_records(self, records: Any) -> None:
        self.records += records

    def take_message(self, local_us: int, message: bytes) -> None:
        self.messages.append(message)

    def failed(self, failure: Any) -> None:
        self.records.append(failure.record())

    def lost(self, loss: Any) -> None:
        self.records.append(loss.record())
        self.lost_filters.append(loss.filters)


async def test_tap_hears_everything_once_whoever_asked(exchanges: Exchanges) -> None:
    taps: dict[FeedKey, Tap] = {}

    def tap(key: FeedKey) -> Tap:
        return taps.setdefault(key, Tap())

    async with source(exchanges, tap=tap) as live:
        tasks = [asyncio.create_task(collect(client(live), [])) for _ in range(3)]
        socket = await exchanges.socket(1)
        await socket.send_compact({"info": "hello"}, BITMEX.trade("XBTUSD"), BITMEX.error)
        await exchanges.socket(2)
        for task in tasks:
            task.cancel()
        await until(lambda: exchanges.sockets[1].is_gone)
    [heard] = taps.values()
    assert [type(record) for record in heard.records] == [Trade, FeedError, Disconnect]
    assert len(heard.messages) == 2
    [[lost]] = heard.lost_filters
    assert (lost.channel, lost.symbols) == ("trade", ("XBTUSD",))


async def test_all_symbols_and_some_of_them_come_from_two_feeds(exchanges: Exchanges) -> None:
    some: list[Record] = []
    everything: list[Record] = []
    async with source(exchanges) as live:
        views = LiveViews(live)
        tasks = []
        for symbols, records in ((["XBTUSD"], some), (None, everything), (["XBTUSD"], [])):
            request = StreamRequest(exchange="bitmex", symbols=symbols, data_types=["trade"])
            stream = LiveClient(plan_stream([request], {}), views)
            tasks.append(asyncio.create_task(collect(stream, records)))
        one, whole = await exchanges.socket(1), await exchanges.socket(2)
        await one.send_compact(BITMEX.trade("XBTUSD"))
        await whole.send_compact(BITMEX.trade("XBTUSD"), BITMEX.trade("ETHUSD"))
        await until(lambda: some and len(everything) == 2)
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
    assert (len(some), len(everything), len(exchanges.sockets)) == (1, 2, 2)
    assert [frame["args"] for frame in whole.frames] == [["trade"]]


async def test_polled_value_does_not_keep_a_dead_connection(exchanges: Exchanges) -> None:
    exchanges.answers = {
        "exchangeInfo": {"rateLimits": [{"rateLimitType": "REQUEST_WEIGHT", "limit": 6000}]},
        "openInterest": {"symbol": "BTCUSDT", "openInterest": "1", "time": 1},
    }
    entry = {
        "exchange": "binance-futures",
        "symbols": ["BTCUSDT"],
        "data_types": ["derivative_ticker"],
        "timeout_interval_ms": 200,
    }
    records: list[Record] = []
    async with source(exchanges) as live:
        task = asyncio.create_task(collect(client(live, entry), records))
        first = await exchanges.socket(1)
        await until(lambda: records)
        await until(lambda: first.is_gone)
        task.cancel()
    assert records[0].type == "derivative_ticker"


LIMITS = {"rateLimits": [{"rateLimitType": "REQUEST_WEIGHT", "limit": 6000}]}
FUTURES = binance_venue("binance-futures", "BTCUSDT", "ETHUSDT")
CURIOUS = {"with_error_messages": True, "with_disconnect_messages": True}


async def test_refused_snapshot_starts_the_connection_over(exchanges: Exchanges) -> None:
    exchanges.answers = {"exchangeInfo": LIMITS, "depth?": (400, {"msg": "Invalid symbol."})}
    entry = {"exchange": "binance-futures", "symbols": ["BTCUSDT"], "data_types": ["book_change"]}
    records: list[Record] = []
    async with source(exchanges) as live:
        task = asyncio.create_task(collect(client(live, {**entry, **CURIOUS}), records))
        first = await exchanges.socket(1)
        await first.send_compact(FUTURES.update("BTCUSDT", 1, 2))
        await exchanges.socket(2)
        task.cancel()
    assert [record.type for record in records] == ["error", "disconnect"]
    assert "Invalid symbol." in records[0].details  # type: ignore[attr-defined]


async def test_failed_poll_is_told_and_polling_goes_on(exchanges: Exchanges) -> None:
    exchanges.answers = {"exchangeInfo": LIMITS, "openInterest": (400, {"msg": "no"})}
    entry = {
        "exchange": "binance-futures",
        "symbols": ["BTCUSDT"],
        "data_types": ["derivative_ticker"],
    }
    variables = {"BINANCE_FUTURES_OPEN_INTEREST_POLLING_INTERVAL_MS": "1000"}
    records: list[Record] = []
    async with source(exchanges, exchange_environment=variables) as live:
        task = asyncio.create_task(collect(client(live, {**entry, **CURIOUS}), records))
        await until(lambda: records)
        value = {"symbol": "BTCUSDT", "openInterest": "7", "time": 1}
        exchanges.answers = {"exchangeInfo": LIMITS, "openInterest": value}
        await until(lambda: records[-1].type == "derivative_ticker")
        task.cancel()
    assert {record.type for record in records} == {"error", "derivative_ticker"}
    assert len(exchanges.sockets) == 1


async def test_symbol_without_updates_gets_its_snapshot_too(exchanges: Exchanges) -> None:
    exchanges.answers = {
        "exchangeInfo": LIMITS,
        "depth?": {"lastUpdateId": 7, "bids": [["7", "1"]], "asks": []},
    }
    entry = {"exchange": "binance-futures", "symbols": ["BTCUSDT"], "data_types": ["book_change"]}
    records: list[Record] = []
    async with source(exchanges) as live:
        task = asyncio.create_task(collect(client(live, entry), records))
        await until(lambda: records)
        task.cancel()
    assert records[0].is_snapshot  # type: ignore[attr-defined]


async def test_added_data_type_is_mapped_on_the_same_channel(exchanges: Exchanges) -> None:
    fields = {"exchange": "deribit", "symbols": ["BTC-PERPETUAL"]}
    trades: list[Record] = []
    liquidations: list[Record] = []
    message = DERIBIT.trade("BTC-PERPETUAL")
    message["params"]["data"][0]["liquidation"] = "T"
    async with source(exchanges) as live:
        views = LiveViews(live)
        tasks = []
        for data_type, records in (("trade", trades), ("liquidation", liquidations)):
            request = StreamRequest(**fields, data_types=[data_type])
            stream = LiveClient(plan_stream([request], {}), views)
            tasks.append(asyncio.create_task(collect(stream, records)))
            socket = await exchanges.socket(1)
        await until(lambda: len(socket.frames) == 2)
        await socket.send_compact(message)
        await until(lambda: trades and liquidations)
        assert len(socket.frames) == 2
        for task in tasks:
            task.cancel()
    assert [record.type for record in (*trades, *liquidations)] == ["trade", "liquidation"]
