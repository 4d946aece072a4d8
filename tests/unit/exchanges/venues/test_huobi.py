"""Rules of the huobi family that its golden files do not show."""

import gzip
import json
import zlib
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.venues.huobi.feed import (
    CONTRACTS,
    SPOT,
    answer_ping,
    connections,
    open_interest,
    read_subscribe,
)
from tardis_machine.exchanges.venues.huobi.options import parse_option
from tardis_machine.exchanges.venues.huobi.topics import locate, native_symbol
from tardis_machine.exchanges.versions import feed_of, live_mappers, venue_of
from tardis_machine.model.errors import BookGapError, MappingError, RequestError, SourceError
from tardis_machine.model.records import BookChange, Record
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import LOCAL, map_messages

FUTURES = CONTRACTS[0]


class LiveBooks:
    """Maps the messages of a live connection, whose sequence is checked."""

    def __init__(self, exchange: str) -> None:
        known = REGISTRY[exchange]
        mappers = live_mappers(known, ["book_change"], {})
        self._normalizer = Normalizer(exchange, venue_of(known).formats[-1], [*mappers.values()])

    def take(self, message: Any) -> list[tuple[bool, float]]:
        """Return whether each book change is a snapshot, and its last bid."""
        records: list[Record] = []
        self._normalizer.map_message(json.dumps(message).encode(), LOCAL, records.append)
        changes = [record for record in records if isinstance(record, BookChange)]
        return [(change.is_snapshot, change.bids[-1].price) for change in changes]


def update(previous: int, number: int) -> Any:
    tick = {"seqNum": number, "prevSeqNum": previous, "bids": [[number, 1]], "asks": []}
    return {"ch": "market.btcusdt.mbp.400", "ts": 1, "tick": tick}


def reply(number: int | None) -> Any:
    data = None if number is None else {"seqNum": number, "bids": [[number, 1]], "asks": []}
    return {"id": "1", "rep": "market.btcusdt.mbp.400", "status": "ok", "ts": 1, "data": data}


def depth(event: str, version: int) -> Any:
    tick = {"event": event, "version": version, "bids": [[version, 1]], "asks": []}
    return {"ch": "market.BTC_CW.depth.size_150.high_freq", "ts": 1, "tick": tick}


def test_live_book_on_request_skips_what_it_holds_already() -> None:
    books = LiveBooks("huobi")
    assert [books.take(update(n - 1, n)) for n in (5, 6, 7)] == [[], [], []]
    assert books.take(reply(6)) == [(True, 7)]
    assert books.take(update(6, 7)) == []
    assert books.take(update(7, 8)) == [(False, 8)]


@pytest.mark.parametrize("messages", [[update(9, 10), reply(5)], [reply(5), update(6, 7)]])
def test_update_that_does_not_follow_the_book_is_a_gap(messages: list[Any]) -> None:
    books = LiveBooks("huobi")
    books.take(messages[0])
    with pytest.raises(BookGapError, match="follows"):
        books.take(messages[1])
    assert books.take(update(20, 21)) == []
    assert books.take(reply(21)) == [(True, 21)]


def test_answer_without_a_book_asks_for_another() -> None:
    with pytest.raises(BookGapError, match="without a book"):
        LiveBooks("huobi").take(reply(None))


def test_version_that_is_skipped_is_a_gap() -> None:
    books = LiveBooks("huobi-dm")
    assert books.take(depth("update", 1)) == []
    assert books.take(depth("snapshot", 5)) == [(True, 5)]
    assert books.take(depth("update", 6)) == [(False, 6)]
    with pytest.raises(BookGapError):
        books.take(depth("update", 8))
    assert books.take(depth("update", 9)) == []
    assert books.take(depth("snapshot", 10)) == [(True, 10)]


def test_best_levels_without_time_are_an_error() -> None:
    with pytest.raises(MappingError, match="have no time"):
        map_messages("huobi", "book_ticker", {"ch": "market.btcusdt.bbo", "tick": {"bid": 1}})


@pytest.mark.parametrize(
    ("tag", "located"),
    [
        ("market.btcusdt.trade.detail", Filter("trade", ("btcusdt",))),
        ("rep,market.btcusdt.mbp.400", Filter("mbp", ("btcusdt",))),
        ("public.BTC.contract_info", Filter("contract_info", ("BTC",))),
    ],
)
def test_name_tells_channel_and_symbol(tag: str, located: Filter) -> None:
    assert locate(tag) == located


@pytest.mark.parametrize(
    ("symbol", "native"),
    [("BTCUSDT", "btcusdt"), ("btc_cw", "BTC_CW"), ("btc-usd", "BTC-USD")],
)
def test_symbols_have_the_case_of_their_market(symbol: str, native: str) -> None:
    assert native_symbol(symbol) == native


@pytest.mark.parametrize("symbol", ["BTC-USDT", "BTC-USDT-210521-C", "BTC-USDT-may-C-1"])
def test_option_with_another_name_is_an_error(symbol: str) -> None:
    with pytest.raises((ValueError, LookupError)):
        parse_option(symbol)


def test_books_are_asked_for_on_their_own_socket() -> None:
    filters = [Filter("mbp", ("btcusdt",)), Filter("trade", ("btcusdt",))]
    books, trades = connections(SPOT, filters, Access())
    assert (books.url, trades.url) == (
        "wss://api-aws.huobi.pro/feed",
        "wss://api-aws.huobi.pro/ws",
    )
    assert books.snapshots is not None
    assert books.snapshots.request is not None
    request = json.loads(books.snapshots.request("btcusdt"))
    assert request == {"id": "1", "req": "market.btcusdt.mbp.400"}
    assert trades.snapshots is None


def test_open_interest_of_futures_is_polled_by_kind_of_contract() -> None:
    filters = [Filter("basis", ("BTC_CW",)), Filter("open_interest", ("BTC_CW",))]
    [connection] = connections(FUTURES, filters, Access())
    assert [json.loads(frame)["sub"] for frame in connection.frames] == [
        "market.BTC_CW.basis.1min.close"
    ]
    [poll] = connection.polls
    assert poll.calls.url("BTC_CW").endswith(
        "/api/v1/contract_open_interest?symbol=BTC&contract_type=this_week"
    )
    answer = b'{"status":"ok","data":[{"volume":7}],"ts":5}'
    assert json.loads(open_interest("BTC_CW", answer)) == {
        "ch": "market.BTC_CW.open_interest",
        "generated": True,
        "data": [{"volume": 7}],
        "ts": 5,
    }
    with pytest.raises(SourceError, match="BTC_CW was refused"):
        open_interest("BTC_CW", b'{"status":"error","err_msg":"no"}')


def test_channel_without_symbols_is_refused() -> None:
    with pytest.raises(RequestError, match="huobi requires"):
        connections(SPOT, [Filter("trade")], Access())


def test_both_forms_of_subscriptions_are_read() -> None:
    assert read_subscribe({"sub": "market.BTC_CW.depth.step0"}) == [Filter("depth", ("BTC_CW",))]
    assert read_subscribe({"op": "sub", "topic": "public.BTC.liquidation_orders"}) == [
        Filter("liquidation_orders", ("BTC",))
    ]
    assert read_subscribe({"unsub": "market.BTC_CW.bbo"}) is None


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ({"ping": 7}, {"pong": 7}),
        ({"op": "ping", "ts": "8"}, {"op": "pong", "ts": "8"}),
        ({"op": "sub", "ts": 9}, None),
    ],
)
def test_both_kinds_of_pings_are_answered(message: Any, answer: Any) -> None:
    written = answer_ping(json.dumps(message).encode())
    assert (None if written is None else json.loads(written)) == answer


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_frames_are_packed_in_either_way(compress: Any) -> None:
    unpack = feed_of(REGISTRY["huobi"]).unpack
    assert unpack is not None
    assert unpack(compress(b'{"ping":1}')) == b'{"ping":1}'
