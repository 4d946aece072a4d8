"""Forms of feeds that few venues have, some on a made-up one, and very large frames."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tardis_machine.exchanges.feeds import (
    Access,
    AddressCall,
    Feed,
    FeedConnection,
    Poll,
    RestCalls,
)
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import feed_of, venue_of, version_at
from tardis_machine.model.records import DerivativeTicker, Record, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.sources.context import Timing
from tardis_machine.sources.live.listeners import Failure, FeedListener
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.live.source import LiveSource
from tests.contract.live_venues import BITMEX
from tests.servers.exchanges import Exchanges, running_exchanges, until

BASE = REGISTRY["bitmex"]
TRADES = [Filter("trade", ("XBTUSD",))]
TOKEN_URL = "https://api.made-up.example.com/bullet-public"


class Listener(FeedListener):
    """Keeps records and failures."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.failures: list[str] = []

    def take_records(self, records: Any) -> None:
        self.records += records

    def failed(self, failure: Failure) -> None:
        self.failures.append(failure.details)


def made_up(**changes: Any) -> Exchange:
    """Return an exchange that speaks like BitMEX, but has another feed."""
    feed: Feed = replace(feed_of(BASE), **changes)
    venue = replace(venue_of(BASE), feed=feed)
    return replace(BASE, load_venue=lambda: venue)


def with_token(filters: Any, access: Access) -> list[FeedConnection]:
    call = AddressCall(url=TOKEN_URL, read=lambda body: str(json.loads(body)["endpoint"]))
    return [replace(each, address=call) for each in feed_of(BASE).connections(filters, access)]


@pytest.fixture
async def exchanges() -> AsyncIterator[Exchanges]:
    async with running_exchanges() as running:
        yield running


async def hurry(_: float) -> None:
    await asyncio.sleep(0.01)


@asynccontextmanager
async def listening(exchanges: Exchanges, exchange: Exchange) -> AsyncIterator[Listener]:
    settings = LiveSettings(exchange_gateway=exchanges.gateway)
    listener = Listener()
    async with LiveSource(settings, timing=Timing(sleep=hurry)) as source:
        source.subscribe(exchange, listener, ["trade"], TRADES)
        yield listener


async def test_binary_frames_are_unpacked(exchanges: Exchanges) -> None:
    async with listening(exchanges, made_up(unpack=gzip.decompress)) as listener:
        socket = await exchanges.socket(1)
        message = json.dumps(BITMEX.trade("XBTUSD"), separators=(",", ":")).encode()
        await socket.send_bytes(gzip.compress(message))
        await until(lambda: listener.records)
        assert listener.failures == []


async def test_frame_that_cannot_be_unpacked_is_an_error(exchanges: Exchanges) -> None:
    async with listening(exchanges, made_up(unpack=gzip.decompress)) as listener:
        await (await exchanges.socket(1)).send_bytes(b"not gzip")
        await exchanges.socket(2)
        assert "cannot be unpacked" in listener.failures[0]


async def test_exchange_is_pinged_in_its_own_way(exchanges: Exchanges) -> None:
    ping = {"op": "ping"}
    async with (
        listening(exchanges, made_up(ping=lambda access: json.dumps(ping))),
        listening(exchanges, BASE),
    ):
        own, usual = await exchanges.socket(1), await exchanges.socket(2)
        await until(lambda: own.frames[-1] == ping and usual.pings)
        assert own.pings == 0
        assert ping not in usual.frames


async def test_address_is_asked_for_before_every_connection(exchanges: Exchanges) -> None:
    exchanges.answers = {"bullet-public": {"endpoint": "wss://ws.made-up.example.com/e?token=1"}}
    async with listening(exchanges, made_up(connections=with_token)):
        first = await exchanges.socket(1)
        assert first.url == "ws.made-up.example.com/e?token=1"
        exchanges.answers = {
            "bullet-public": {"endpoint": "wss://ws.made-up.example.com/e?token=2"}
        }
        await first.close(1000)
        assert (await exchanges.socket(2)).url == "ws.made-up.example.com/e?token=2"
    assert exchanges.requests == ["api.made-up.example.com/bullet-public"] * 2


SWAPS = REGISTRY["huobi-dm-swap"]
SWAP_TICKERS = version_at(SWAPS, "derivative_ticker", 0, 0, is_live=True).filters(["BTC-USD"])
BASIS = {
    "ch": "market.BTC-USD.basis.1min.close",
    "ts": 1,
    "tick": {"index_price": "5", "contract_price": "6"},
}
RATE = {"contract_code": "BTC-USD", "funding_rate": "0.5", "settlement_time": "2"}
FUNDING = {"op": "notify", "topic": "public.BTC-USD.funding_rate", "ts": 2, "data": [RATE]}


async def test_record_is_made_of_what_several_connections_bring(exchanges: Exchanges) -> None:
    exchanges.answers["open_interest"] = {"status": "ok", "ts": 3, "data": [{"volume": 7}]}
    settings = LiveSettings(exchange_gateway=exchanges.gateway)
    listener = Listener()
    async with LiveSource(settings, timing=Timing(sleep=hurry)) as source:
        source.subscribe(SWAPS, listener, ["derivative_ticker"], SWAP_TICKERS)
        sockets = {(socket := await exchanges.socket(n)).url: socket for n in (1, 2)}
        await until(lambda: listener.records)
        await sockets["api.hbdm.com/ws_index"].send(BASIS)
        await until(lambda: len(listener.records) == 2)
        await sockets["api.hbdm.com/swap-notification"].send(FUNDING)
        await until(lambda: len(listener.records) == 3)
        last = listener.records[-1]
        assert isinstance(last, DerivativeTicker)
        known = (last.open_interest, last.index_price, last.last_price, last.funding_rate)
        assert known == (7, 5, 6, 0.5)


async def test_polled_answer_that_says_no_is_told(exchanges: Exchanges) -> None:
    exchanges.answers["open_interest"] = {"status": "error", "err_msg": "busy"}
    settings = LiveSettings(exchange_gateway=exchanges.gateway)
    listener = Listener()
    async with LiveSource(settings, timing=Timing(sleep=hurry)) as source:
        source.subscribe(SWAPS, listener, ["derivative_ticker"], SWAP_TICKERS)
        await until(lambda: listener.failures)
        assert "BTC-USD was refused" in listener.failures[0]
        assert len(exchanges.sockets) == 2


async def test_refused_token_is_told_and_asked_for_again(exchanges: Exchanges) -> None:
    exchanges.answers = {"bullet-public": (400, {"msg": "no"})}
    async with listening(exchanges, made_up(connections=with_token)) as listener:
        await until(lambda: len(listener.failures) >= 2)
        assert "status code 400" in listener.failures[0]
        exchanges.answers = {"bullet-public": {"code": "200000"}}
        await until(lambda: "tells no address" in listener.failures[-1])
        exchanges.answers = {"bullet-public": {"endpoint": "wss://ws.made-up.example.com/e"}}
        await exchanges.socket(1)


@pytest.mark.parametrize("size", [10_000_000, 20_000_000])
async def test_huge_frame_ends_nothing_but_its_connection(exchanges: Exchanges, size: int) -> None:
    async with listening(exchanges, BASE) as listener:
        first = await exchanges.socket(1)
        with suppress(ConnectionError):
            await first.send("x" * size)
        socket = await exchanges.socket(2)
        assert len(listener.failures) == 1
        assert len(listener.failures[0]) < 3000
        await socket.send_compact(BITMEX.trade("XBTUSD"))
        await until(lambda: listener.records)


async def test_large_message_is_mapped(exchanges: Exchanges) -> None:
    message = BITMEX.trade("XBTUSD")
    message["data"] *= 30_000
    async with listening(exchanges, BASE) as listener:
        await (await exchanges.socket(1)).send_compact(message)
        await until(lambda: len(listener.records) == 30_000)


def with_poll(filters: Any, access: Access) -> list[FeedConnection]:
    """Ask for the trades of all symbols by one REST call."""
    url = "https://api.made-up.example.com/all"
    calls = RestCalls(url=lambda _: url, wrap=lambda _, body: body)
    poll = Poll(symbols=("",), calls=calls, interval_seconds=0.05, split=split_list)
    return [replace(each, polls=(poll,)) for each in feed_of(BASE).connections(filters, access)]


def split_list(answer: bytes) -> list[bytes]:
    messages = msgspec.json.decode(answer, type=list[Any])
    return [json.dumps(each, separators=(",", ":")).encode() for each in messages]


async def test_answer_about_many_symbols_becomes_their_messages(exchanges: Exchanges) -> None:
    exchanges.answers = {"all": {"not": "a list"}}
    async with listening(exchanges, made_up(connections=with_poll)) as listener:
        await until(lambda: listener.failures)
        assert "cannot be read" in listener.failures[0]
        exchanges.answers = {"all": [BITMEX.trade("XBTUSD"), BITMEX.trade("ETHUSD")]}
        await until(lambda: len(listener.records) >= 2)
        symbols = [record.symbol for record in listener.records[:2] if isinstance(record, Trade)]
        assert symbols == ["XBTUSD", "ETHUSD"]


def with_header(filters: Any, access: Access) -> list[FeedConnection]:
    headers = {"X-Own": "1"}
    return [replace(each, headers=headers) for each in feed_of(BASE).connections(filters, access)]


async def test_handshake_has_the_headers_of_the_venue(exchanges: Exchanges) -> None:
    async with listening(exchanges, made_up(connections=with_header)):
        socket = await exchanges.socket(1)
        assert socket.headers["X-Own"] == "1"
        assert "User-Agent" in socket.headers
