"""What every live feed must do, whatever the exchange does.

The venue's messages come from `live_venues`, over a real WebSocket and real REST calls. A new
exchange is under this contract as soon as it has a feed, and fails until its messages are there.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import BookSequence
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import feed_of, venue_of
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.records import BookChange, Record, Trade, decoded
from tardis_machine.model.requests import StreamRequest
from tardis_machine.session.live.plan import plan_stream
from tardis_machine.session.live.stream import LiveClient
from tardis_machine.session.live.views import LiveViews
from tardis_machine.sources.context import Timing
from tardis_machine.sources.live.listeners import FeedKey
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.live.source import LiveSource
from tests.contract.live_venues import KUCOIN_TOKEN, VENUES, LiveVenue
from tests.servers.exchanges import Exchanges, VenueSocket, running_exchanges, until

CLOSE_CODES = [1000, 1001, 1002, 1008, 1011, 1012, 4000]

BY_NAME = {"argvalues": VENUES, "ids": lambda venue: venue.exchange}
NUMBERED = [venue for venue in VENUES if venue.has_numbers]
CHECKED = [venue for venue in VENUES if venue.checked is not None]
NUMBERED_BOOKS = {
    *(BookSequence.NUMBERED, BookSequence.NUMBERED_CHECKED),
    *(BookSequence.REST, BookSequence.REQUESTED),
}
CHECKED_BOOKS = {BookSequence.CHECKED, BookSequence.NUMBERED_CHECKED}
LENIENT = [venue for venue in VENUES if venue.ignores_unknown_symbols is not None]
CREDENTIALS = {
    name: "c2VjcmV0" for venue in VENUES for name in feed_of(REGISTRY[venue.exchange]).credentials
}
"""What those venues want that stream nothing without."""


async def hurry(seconds: float) -> None:
    """Wait a fiftieth of what is asked for."""
    await asyncio.sleep(seconds / 50)


class Watcher:
    """A client of live streams that keeps what it gets."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def watch(self, client: LiveClient) -> None:
        async for ready in client.chunks():
            self.records += [decoded(record) for chunk in ready for record in chunk.records]

    def of(self, kind: type[Record]) -> list[Any]:
        return [record for record in self.records if type(record) is kind]

    def books(self, symbol: str) -> list[tuple[bool, float]]:
        """Return, per book change of a symbol, whether it is a snapshot, and its last bid."""
        return [
            (record.is_snapshot, record.bids[-1].price)
            for record in self.of(BookChange)
            if record.symbol == symbol.upper()
        ]


class Stage:
    """A feed under test: its exchange, our source, and clients."""

    def __init__(self, exchanges: Exchanges, source: LiveSource) -> None:
        self.exchanges = exchanges
        self.source = source
        self.views = LiveViews(source)

    @asynccontextmanager
    async def client(
        self, venue: LiveVenue, *data_types: str, symbols: int = 2, **options: Any
    ) -> AsyncIterator[Watcher]:
        """Watch data types of a venue while the body runs."""
        request = StreamRequest(
            exchange=venue.exchange,
            symbols=list(venue.symbols[:symbols]),
            data_types=list(data_types),
            with_disconnect_messages=True,
            with_error_messages=True,
            **options,
        )
        client = LiveClient(plan_stream([request], {}), self.views)
        watcher = Watcher()
        task = asyncio.create_task(watcher.watch(client))
        try:
            yield watcher
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def socket(self, venue: LiveVenue, number: int = 1) -> VenueSocket:
        """Wait for a connection, counted from 1, that has subscribed to something."""
        feed = venue_of(REGISTRY[venue.exchange]).feed
        assert feed is not None
        socket = await self.exchanges.socket(number)
        await until(lambda: any(map(feed.read_subscribe, socket.asked)))
        await socket.send_compact(*venue.greeting)
        return socket


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with running_exchanges() as exchanges:
        exchanges.answers["exchangeInfo"] = {
            "rateLimits": [{"rateLimitType": "REQUEST_WEIGHT", "limit": 6000}]
        }
        exchanges.answers["bullet-public"] = KUCOIN_TOKEN
        settings = LiveSettings(
            exchange_gateway=exchanges.gateway, exchange_environment=CREDENTIALS
        )
        async with LiveSource(settings, timing=Timing(sleep=hurry)) as source:
            yield Stage(exchanges, source)


async def begin_book(
    stage: Stage, venue: LiveVenue, socket: VenueSocket, symbol: str, number: int
) -> None:
    """Bring the book of a symbol up to an update with this number."""
    snapshot = venue.snapshot(symbol, number - 1)
    if venue.begins_with_rest:
        rest_url = venue.rest_url(symbol)
        stage.exchanges.answers[rest_url] = snapshot
        await socket.send_compact(venue.update(symbol, number - 2, number - 1))
        await until(lambda: any(rest_url in url for url in stage.exchanges.requests))
    else:
        if venue.begins_with_request:
            await socket.send_compact(venue.update(symbol, number - 2, number - 1))
            await until(lambda: asked_for(socket, symbol))
        await socket.send_compact(snapshot)
    await socket.send_compact(venue.update(symbol, number - 1, number))


def asked_for(socket: VenueSocket, symbol: str) -> int:
    """Return how often the book of a symbol was asked for."""
    return sum(f".{symbol}." in frame.get("req", "") for frame in socket.frames)


def test_every_feed_is_under_the_contract() -> None:
    streamed = {
        exchange.id
        for exchange in REGISTRY.values()
        if exchange.has_mappers and venue_of(exchange).feed is not None
    }
    assert {venue.exchange for venue in VENUES} == streamed


@pytest.mark.parametrize("venue", **BY_NAME)
def test_feed_says_how_its_books_are_kept(venue: LiveVenue) -> None:
    feed = venue_of(REGISTRY[venue.exchange]).feed
    assert feed is not None
    assert (feed.books is BookSequence.WHOLE) == venue.sends_whole_books
    by_rest = (BookSequence.REST, BookSequence.REST_BY_TIME)
    assert (feed.books in by_rest) == venue.begins_with_rest
    assert (feed.books is BookSequence.REQUESTED) == venue.begins_with_request
    assert (feed.books in NUMBERED_BOOKS) == venue.has_numbers
    assert (feed.books in CHECKED_BOOKS) == (venue.checked is not None)


@pytest.mark.parametrize("venue", **BY_NAME)
class FeedContract:
    """What holds for every exchange that can be streamed."""

    async def test_book_begins_with_its_snapshot(self, stage: Stage, venue: LiveVenue) -> None:
        is_whole = venue.sends_whole_books
        async with stage.client(venue, "book_change") as watcher:
            socket = await stage.socket(venue)
            for symbol in venue.symbols:
                await begin_book(stage, venue, socket, symbol, 102)
                await until(lambda symbol=symbol: watcher.books(symbol))
                await socket.send_compact(venue.update(symbol, 102, 103))
                await until(lambda symbol=symbol: (is_whole, 103) in watcher.books(symbol))
                books = watcher.books(symbol)
                assert [is_snapshot for is_snapshot, _ in books][:1] == [True]
                assert is_whole or sum(is_snapshot for is_snapshot, _ in books) == 1

    @pytest.mark.parametrize("code", CLOSE_CODES)
    async def test_closed_connection_is_opened_again(
        self, stage: Stage, venue: LiveVenue, code: int
    ) -> None:
        async with stage.client(venue, "trade") as watcher:
            first = await stage.socket(venue, 1)
            await until(lambda: is_subscribed(first, venue))
            await first.send_compact(venue.trade(venue.symbols[0]))
            await until(lambda: watcher.of(Trade))
            await first.close(code)
            second = await stage.socket(venue, 2)
            assert second.url == first.url
            await until(lambda: without_ids(second.asked) == without_ids(first.asked))
            await second.send_compact(venue.trade(venue.symbols[1]))
            await until(lambda: len(watcher.of(Trade)) == 2)
            assert [type(record) for record in watcher.records] == [Trade, Disconnect, Trade]
            assert watcher.of(Disconnect)[0].symbols == list(venue.symbols)

    async def test_broken_connection_is_opened_again(self, stage: Stage, venue: LiveVenue) -> None:
        async with stage.client(venue, "trade") as watcher:
            first = await stage.socket(venue, 1)
            first.drop()
            second = await stage.socket(venue, 2)
            await second.send_compact(venue.trade(venue.symbols[0]))
            await until(lambda: watcher.of(Trade))
            assert len(watcher.of(Disconnect)) == 1

    async def test_silent_connection_is_replaced(self, stage: Stage, venue: LiveVenue) -> None:
        async with stage.client(venue, "trade", timeout_interval_ms=200) as watcher:
            first = await stage.socket(venue, 1)
            await stage.socket(venue, 2)
            await until(lambda: first.is_gone)
            await until(lambda: watcher.of(Disconnect))
            assert watcher.of(FeedError) == []

    async def test_error_message_is_told_and_the_stream_goes_on(
        self, stage: Stage, venue: LiveVenue
    ) -> None:
        async with stage.client(venue, "trade") as watcher:
            first = await stage.socket(venue, 1)
            await first.send_compact(venue.trade(venue.symbols[0]), venue.error)
            second = await stage.socket(venue, 2)
            await second.send_compact(venue.trade(venue.symbols[0]))
            await until(lambda: len(watcher.of(Trade)) == 2)
            assert [type(record) for record in watcher.records] == [
                *(Trade, FeedError, Disconnect, Trade),
            ]
            [error] = watcher.of(FeedError)
            assert error.details.startswith("Received error message: {")
            assert error.subsequent_errors_count == 1
            await until(lambda: first.is_gone)

    @pytest.mark.parametrize("text", ["", "pong", "{", '"text"'])
    async def test_text_that_is_no_message_is_an_error(
        self, stage: Stage, venue: LiveVenue, text: str
    ) -> None:
        async with stage.client(venue, "trade") as watcher:
            first = await stage.socket(venue, 1)
            await first.send(text)
            await stage.socket(venue, 2)
            assert len(watcher.of(FeedError)) == len(watcher.of(Disconnect)) == 1

    async def test_frame_in_a_foreign_compression_is_an_error(
        self, stage: Stage, venue: LiveVenue
    ) -> None:
        async with stage.client(venue, "trade") as watcher:
            first = await stage.socket(venue, 1)
            await first.send_bytes(b"\x1f\x8b\x08\x00")
            await stage.socket(venue, 2)
            assert "binary" in watcher.of(FeedError)[0].details

    async def test_half_message_is_told_and_left_out(self, stage: Stage, venue: LiveVenue) -> None:
        async with stage.client(venue, "trade") as watcher:
            socket = await stage.socket(venue, 1)
            await socket.send_compact(venue.half(venue.symbols[0]), venue.trade(venue.symbols[0]))
            await until(lambda: watcher.of(Trade))
            assert [type(record) for record in watcher.records] == [FeedError, Trade]
            assert len(stage.exchanges.sockets) == 1

    async def test_refused_handshake_is_told_and_tried_again(
        self, stage: Stage, venue: LiveVenue
    ) -> None:
        stage.exchanges.refusals = [503]
        async with stage.client(venue, "trade") as watcher:
            socket = await stage.socket(venue, 1)
            await socket.send_compact(venue.trade(venue.symbols[0]))
            await until(lambda: watcher.of(Trade))
            assert [type(record) for record in watcher.records] == [FeedError, Disconnect, Trade]
            assert "503" in watcher.of(FeedError)[0].details

    async def test_second_client_shares_the_connection_and_begins_with_the_book(
        self, stage: Stage, venue: LiveVenue
    ) -> None:
        symbol, is_whole = venue.symbols[0], venue.sends_whole_books
        async with stage.client(venue, "book_change", symbols=1) as early:
            socket = await stage.socket(venue)
            await begin_book(stage, venue, socket, symbol, 102)
            await socket.send_compact(venue.update(symbol, 102, 103))
            await until(lambda: (is_whole, 103) in early.books(symbol))
            frames = [*socket.asked]
            async with stage.client(venue, "book_change", "quote", symbols=1) as late:
                await until(lambda: late.books(symbol))
                await socket.send_compact(venue.update(symbol, 103, 104))
                await until(lambda: (is_whole, 104) in late.books(symbol))
                assert [is_snapshot for is_snapshot, _ in late.books(symbol)] == [True, is_whole]
                [snapshot, _] = late.of(BookChange)
                assert snapshot.bids[0].price == 103
                assert len(stage.exchanges.sockets) == 1
                assert socket.asked == frames
                assert [record.type for record in late.records][:2] == [
                    "book_change",
                    "book_snapshot",
                ]

    async def test_further_client_subscribes_only_what_is_missing(
        self, stage: Stage, venue: LiveVenue
    ) -> None:
        feed = venue_of(REGISTRY[venue.exchange]).feed
        assert feed is not None
        async with stage.client(venue, "trade", symbols=1):
            socket = await stage.socket(venue, 1)
            before = len(socket.asked)
            async with stage.client(venue, "trade") as second:
                await until(lambda: len(socket.asked) > before)
                [added] = socket.asked[before:]
                named = venue.symbols if feed.replaces else venue.symbols[1:]
                for entry in feed.read_subscribe(added) or ():
                    names = map(feed.grouped.get(entry.channel, str), named)
                    asked = sorted(symbol.upper() for symbol in entry.symbols or ())
                    assert asked == sorted(name.upper() for name in names)
                await socket.send_compact(*map(venue.trade, venue.symbols))
                await until(lambda: len(second.of(Trade)) == 2)
            assert len(stage.exchanges.sockets) == 1

    async def test_what_nobody_wants_any_more_is_left(self, stage: Stage, venue: LiveVenue) -> None:
        feed = venue_of(REGISTRY[venue.exchange]).feed
        assert feed is not None
        kept, left = venue.symbols
        async with stage.client(venue, "book_change", symbols=1) as watcher:
            socket = await stage.socket(venue)
            async with stage.client(venue, "book_change"):
                await until(lambda: is_subscribed(socket, venue))
            if feed.unsubscribe is not None:
                await until(lambda: "unsub" in str(socket.asked[-1]).lower())
                assert left.upper() in str(socket.asked[-1]).upper()
                assert kept.upper() not in str(socket.asked[-1]).upper()
            await begin_book(stage, venue, socket, kept, 102)
            await until(lambda: watcher.books(kept))
            before = len(socket.asked)
            async with stage.client(venue, "book_change") as again:
                if feed.unsubscribe is not None:
                    await until(lambda: len(socket.asked) > before)
                await begin_book(stage, venue, socket, left, 202)
                await until(lambda: again.books(left))
                assert again.books(left)[0][0]
            assert len(stage.exchanges.sockets) == 1
            assert watcher.of(Disconnect) == []

    async def test_end_of_the_last_client_closes_everything(
        self, stage: Stage, venue: LiveVenue
    ) -> None:
        async with stage.client(venue, *REGISTRY[venue.exchange].data_types):
            await stage.socket(venue, 1)
        await until(lambda: all(socket.is_gone for socket in stage.exchanges.sockets))
        assert stage.source.feed(FeedKey(venue.exchange)) is None
        await until(lambda: not [task for task in live_tasks() if not task.done()])


class TestFeeds(FeedContract):
    """All feeds."""


@pytest.mark.parametrize("venue", NUMBERED, ids=lambda venue: venue.exchange)
async def test_gap_starts_one_book_over(stage: Stage, venue: LiveVenue) -> None:
    broken, sound = venue.symbols
    async with stage.client(venue, "book_change") as watcher:
        socket = await stage.socket(venue)
        for symbol in venue.symbols:
            await begin_book(stage, venue, socket, symbol, 102)
            await until(lambda symbol=symbol: watcher.books(symbol))
        frames, requests = len(socket.asked), len(stage.exchanges.requests)
        await socket.send_compact(venue.update(broken, 104, 105))
        await until(lambda: watcher.of(Disconnect))
        assert watcher.of(Disconnect)[0].symbols == [broken]
        if venue.begins_with_rest:
            stage.exchanges.answers[venue.rest_url(broken)] = venue.snapshot(broken, 105)
            await until(lambda: len(stage.exchanges.requests) > requests)
        else:
            added = 1 if venue.begins_with_request else 2
            await until(lambda: len(socket.asked) >= frames + added)
            await socket.send_compact(venue.snapshot(broken, 105))
        await socket.send_compact(venue.update(sound, 102, 103), venue.update(broken, 105, 106))
        await until(lambda: watcher.books(sound)[-1] == (False, 103))
        await until(lambda: watcher.books(broken)[-1][1] == 106)
        assert sum(is_snapshot for is_snapshot, _ in watcher.books(broken)) == 2
        assert sum(is_snapshot for is_snapshot, _ in watcher.books(sound)) == 1
        assert len(stage.exchanges.sockets) == 1
        assert watcher.of(FeedError) == []


@pytest.mark.parametrize("venue", CHECKED, ids=lambda venue: venue.exchange)
async def test_checksum_that_does_not_fit_starts_one_book_over(
    stage: Stage, venue: LiveVenue
) -> None:
    assert venue.checked is not None
    broken, sound = venue.symbols
    async with stage.client(venue, "book_change") as watcher:
        socket = await stage.socket(venue)
        for symbol in venue.symbols:
            await socket.send_compact(venue.checked(venue.snapshot(symbol, 101), [101]))
        frames = len(socket.asked)
        await socket.send_compact(venue.checked(venue.update(broken, 101, 102), [102]))
        await until(lambda: watcher.of(Disconnect))
        assert watcher.of(Disconnect)[0].symbols == [broken]
        await until(lambda: len(socket.asked) >= frames + 2)
        await socket.send_compact(
            venue.checked(venue.snapshot(broken, 105), [105]),
            venue.checked(venue.update(broken, 105, 106), [106, 105]),
            venue.checked(venue.update(sound, 101, 102), [102, 101]),
        )
        await until(lambda: watcher.books(sound)[-1] == (False, 102))
        assert watcher.books(broken) == [(True, 101), (True, 105), (False, 106)]
        assert len(stage.exchanges.sockets) == 1
        assert watcher.of(FeedError) == []


@pytest.mark.parametrize("venue", CHECKED, ids=lambda venue: venue.exchange)
async def test_checksum_that_never_fitted_is_ignored(stage: Stage, venue: LiveVenue) -> None:
    assert venue.checked is not None
    symbol, _ = venue.symbols
    async with stage.client(venue, "book_change") as watcher:
        socket = await stage.socket(venue)
        await socket.send_compact(
            venue.checked(venue.snapshot(symbol, 101), [1]),
            venue.checked(venue.update(symbol, 101, 102), [1]),
        )
        await until(lambda: watcher.books(symbol) == [(True, 101), (False, 102)])
        assert watcher.of(Disconnect) == []


@pytest.mark.parametrize("venue", LENIENT, ids=lambda venue: venue.exchange)
async def test_unknown_symbol_leaves_the_others_alone(stage: Stage, venue: LiveVenue) -> None:
    assert venue.ignores_unknown_symbols is not None
    async with stage.client(venue, "trade") as watcher:
        socket = await stage.socket(venue, 1)
        await socket.send_compact(venue.ignores_unknown_symbols, venue.trade(venue.symbols[0]))
        await until(lambda: watcher.of(Trade))
        assert [type(record) for record in watcher.records] == [Trade]


def without_ids(frames: Any) -> Any:
    """Leave out what may differ between two connections."""
    if isinstance(frames, dict):
        own = ("id", "nonce", "ticket", "time", "timestamp", "signature")
        return {key: value for key, value in frames.items() if key not in own}
    return [without_ids(frame) for frame in frames]


def is_subscribed(socket: VenueSocket, venue: LiveVenue) -> bool:
    """Say whether the frames of a connection name every symbol, or the part that they go by."""
    frames = str(socket.asked).upper()
    parts = feed_of(REGISTRY[venue.exchange]).grouped.values()
    return all(
        any(name.upper() in frames for name in (symbol, *(part(symbol) for part in parts)))
        for symbol in venue.symbols
    )


def live_tasks() -> list["asyncio.Task[Any]"]:
    """Return the tasks of feeds that run."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "live socket"]


async def test_channel_by_currency_is_left_with_the_last_of_its_symbols(stage: Stage) -> None:
    venue = next(venue for venue in VENUES if venue.exchange == "bybit-options")
    symbols = ("BTC-27NOV26-90000-C", "BTC-27NOV26-95000-C")
    venue = replace(venue, symbols=symbols)
    async with stage.client(venue, "trade") as both:
        socket = await stage.socket(venue)
        async with stage.client(replace(venue, symbols=symbols[::-1]), "trade", symbols=1) as one:
            await socket.send_compact(*map(venue.trade, symbols))
            await until(lambda: len(both.of(Trade)) == 2 and len(one.of(Trade)) == 1)
        await socket.send_compact(venue.trade(symbols[0]))
        await until(lambda: len(both.of(Trade)) == 3)
        assert socket.asked == [{"op": "subscribe", "args": ["publicTrade.BTC"]}]
