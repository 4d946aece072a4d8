"""KuCoin: odd messages, numbers of live books, tokens and REST answers."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access, FeedConnection
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.venues.kucoin.feed import read_address, read_subscribe
from tardis_machine.exchanges.versions import feed_of
from tardis_machine.model.errors import BookGapError, MappingError, RequestError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import connect_live, feed_live, map_messages


def message(topic: str, **data: Any) -> Any:
    return {"type": "message", "topic": f"/{topic}", "subject": "any", "data": data}


def update(start: int, end: int, *bids: Any) -> Any:
    changes = {"asks": [], "bids": list(bids)}
    return message("market/level2:A-B", sequenceStart=start, sequenceEnd=end, changes=changes)


def snapshot(sequence: int) -> Any:
    return message("market/level2Snapshot:A-B", sequence=str(sequence), bids=[], asks=[])


def change(sequence: int) -> Any:
    return message("contractMarket/level2:AM", sequence=sequence, change="1,buy,2", timestamp=1)


def plan(exchange: str, *filters: Filter, **environment: str) -> list[FeedConnection]:
    access = Access(environment, now_us=1_700_000_000_000_000)
    return feed_of(REGISTRY[exchange]).connections(filters, access)


def test_update_without_levels_counts_before_and_after_the_snapshot() -> None:
    normalizer = connect_live("kucoin", "book_change")
    level = ["1", "2", "3"]
    waiting = [update(5, 6, level), update(7, 7, ["0", "0", "7"]), update(8, 8, level)]
    assert feed_live(normalizer, *waiting) == []
    assert len(feed_live(normalizer, snapshot(5))) == 1
    assert feed_live(normalizer, update(9, 9)) == []
    assert len(feed_live(normalizer, update(10, 12, level))) == 1
    with pytest.raises(BookGapError, match="A-B"):
        feed_live(normalizer, update(14, 14, level))


def test_missing_change_of_a_future_is_a_gap() -> None:
    normalizer = connect_live("kucoin-futures", "book_change")
    begin = message("contractMarket/level2Snapshot:AM", sequence=4, bids=[], asks=[])
    assert len(feed_live(normalizer, change(4), change(5), begin, change(6))) == 2
    with pytest.raises(BookGapError, match="AM"):
        feed_live(normalizer, change(8))


@pytest.mark.parametrize(
    ("exchange", "data_type", "odd"),
    [
        ("kucoin", "trade", message("market/match:A-B", symbol="A-B")),
        ("kucoin", "book_change", message("market/level2:A-B", sequenceStart=1)),
        ("kucoin", "book_change", message("market/level2Snapshot:A-B", bids=[])),
        ("kucoin", "book_ticker", message("market/ticker:A-B", bestAsk="x", time=1)),
        (
            "kucoin-futures",
            "book_change",
            message("contractMarket/level2:AM", sequence=1, change="1,buy", timestamp=1),
        ),
        ("kucoin-futures", "derivative_ticker", message("contract/details:AM")),
    ],
)
def test_message_of_another_shape_is_an_error(exchange: str, data_type: str, odd: Any) -> None:
    with pytest.raises(MappingError, match=exchange):
        map_messages(exchange, data_type, odd)


def test_address_comes_with_a_token() -> None:
    answer = {"data": {"token": "abc", "instanceServers": [{"endpoint": "wss://one/endpoint"}]}}
    address = read_address(json.dumps(answer).encode())
    assert address == "wss://one/endpoint?token=abc&connectId=abc"
    with pytest.raises(ValueError, match="not enough values"):
        read_address(b'{"data":{"token":"abc","instanceServers":[]}}')


def test_address_of_the_environment_needs_no_token() -> None:
    [connection] = plan("kucoin", Filter("market/match", ("A-B",)), WSS_URL_KUCOIN="wss://mine")
    assert (connection.url, connection.address) == ("wss://mine", None)
    [connection] = plan("kucoin", Filter("market/match", ("A-B",)))
    assert connection.address is not None
    assert connection.address.url == "https://api.kucoin.com/api/v1/bullet-public"


def test_frames_have_at_most_a_hundred_symbols() -> None:
    symbols = tuple(f"S{number:03}-USDT" for number in range(150))
    [connection] = plan("kucoin", Filter("market/match", symbols))
    read = [read_subscribe(json.loads(frame)) for frame in connection.frames]
    assert read == [
        [Filter("market/match", symbols[:100])],
        [Filter("market/match", symbols[100:])],
    ]


def test_books_begin_with_a_rest_answer() -> None:
    [connection] = plan("kucoin-futures", Filter("contractMarket/level2", ("XBTUSDTM",)))
    assert connection.snapshots is not None
    calls = connection.snapshots.calls
    assert calls.url("XBTUSDTM").endswith("/api/v1/level2/snapshot?symbol=XBTUSDTM")
    made = json.loads(calls.wrap("XBTUSDTM", b'{"code":"200000","data":{"sequence":1}}'))
    assert made == {
        "type": "message",
        "generated": True,
        "topic": "/contractMarket/level2Snapshot:XBTUSDTM",
        "subject": "level2Snapshot",
        "code": "200000",
        "data": {"sequence": 1},
    }


def test_one_answer_tells_the_open_interest_of_all_contracts() -> None:
    [connection] = plan("kucoin-futures", Filter("contract/details", ("XBTUSDTM",)))
    assert connection.frames == ()
    [poll] = connection.polls
    assert poll.split is not None
    answer = b'{"data":[{"symbol":"XBTUSDTM","openInterest":"7"},{"symbol":"ETHUSDTM"}]}'
    [made] = map(json.loads, poll.split(answer))
    assert made["topic"] == "/contract/details:XBTUSDTM"
    assert made["data"] == {"symbol": "XBTUSDTM", "openInterest": "7"}


def test_feed_refuses_all_symbols() -> None:
    with pytest.raises(RequestError, match="symbols to stream 'market/match'"):
        plan("kucoin", Filter("market/match"))
