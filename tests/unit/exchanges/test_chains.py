"""Live books whose updates are numbered: a gap stops one symbol until its next snapshot."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.chains import BookChain
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import live_mappers, venue_of
from tardis_machine.model.errors import BookGapError
from tardis_machine.model.records import Record

LOCAL = "2026-09-01T00:00:00.000Z"


def deribit(symbol: str, previous: int | None, number: int) -> dict[str, Any]:
    data = {"instrument_name": symbol, "timestamp": 1, "change_id": number}
    if previous is not None:
        data |= {"prev_change_id": previous}
    data |= {"bids": [["new", number, 1]], "asks": []}
    params = {"channel": f"book.{symbol}.100ms", "data": data}
    return {"jsonrpc": "2.0", "method": "subscription", "params": params}


def okex(symbol: str, previous: int | None, number: int) -> dict[str, Any]:
    item = {"ts": "1", "seqId": number, "prevSeqId": -1 if previous is None else previous}
    action = "snapshot" if previous is None else "update"
    arg = {"channel": "books", "instId": symbol}
    return {"arg": arg, "action": action, "data": [item | {"bids": [[number, "1"]]}]}


def binance(symbol: str, previous: int | None, number: int) -> dict[str, Any]:
    if previous is None:
        data: dict[str, Any] = {"lastUpdateId": number, "bids": [[number, "1"]], "asks": []}
        return {"stream": f"{symbol.lower()}@depthSnapshot", "generated": True, "data": data}
    data = {"s": symbol, "E": 1, "U": previous + 1, "u": number, "b": [[number, "1"]], "a": []}
    return {"stream": f"{symbol.lower()}@depth@100ms", "data": data}


def futures(symbol: str, previous: int | None, number: int) -> dict[str, Any]:
    message = binance(symbol, previous, number)
    if previous is not None:
        message["data"]["pu"] = previous
    return message


VENUES = [("deribit", deribit), ("okex", okex), ("binance", binance), ("binance-futures", futures)]


class Book:
    """The live books of one connection."""

    def __init__(self, exchange: str, write: Any) -> None:
        known = REGISTRY[exchange]
        [mapper] = live_mappers(known, ["book_change"], {}).values()
        self._normalizer = Normalizer(exchange, venue_of(known).formats[-1], [mapper])
        self._write = write

    def take(self, symbol: str, previous: int | None, number: int) -> list[tuple[bool, float]]:
        """Return, per record, whether it is a snapshot and its last bid."""
        records: list[Record] = []
        message = json.dumps(self._write(symbol, previous, number), separators=(",", ":")).encode()
        self._normalizer.map_message(message, LOCAL, records.append)
        return [(record.is_snapshot, record.bids[-1].price) for record in records]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("exchange", "write"), VENUES)
class TestChains:
    def test_updates_in_order_pass(self, exchange: str, write: Any) -> None:
        book = Book(exchange, write)
        assert book.take("X", None, 10) == [(True, 10)]
        assert book.take("X", 10, 12) == [(False, 12)]
        assert book.take("X", 12, 13) == [(False, 13)]

    def test_gap_names_its_symbol_and_stops_it_alone(self, exchange: str, write: Any) -> None:
        book = Book(exchange, write)
        for symbol in ("X", "Y"):
            book.take(symbol, None, 10)
            book.take(symbol, 10, 11)
        with pytest.raises(BookGapError) as caught:
            book.take("X", 12, 13)
        assert caught.value.symbol == "X"
        assert book.take("X", 13, 14) == []
        assert book.take("Y", 11, 12) == [(False, 12)]

    def test_snapshot_after_a_gap_starts_the_book_again(self, exchange: str, write: Any) -> None:
        book = Book(exchange, write)
        book.take("X", None, 10)
        book.take("X", 10, 11)
        with pytest.raises(BookGapError):
            book.take("X", 12, 13)
        [(is_snapshot, _)] = book.take("X", None, 13)
        assert is_snapshot
        assert book.take("X", 13, 14) == [(False, 14)]


@pytest.mark.parametrize(("exchange", "write"), VENUES[2:])
def test_snapshot_that_is_too_old_can_be_replaced(exchange: str, write: Any) -> None:
    book = Book(exchange, write)
    assert book.take("X", 20, 21) == []
    with pytest.raises(BookGapError, match="does not follow the snapshot"):
        book.take("X", None, 10)
    assert book.take("X", 21, 22) == []
    assert book.take("X", None, 21) == [(True, 22)]
    assert book.take("X", 22, 23) == [(False, 23)]


def cryptofacilities(symbol: str, number: int, *, is_snapshot: bool) -> dict[str, Any]:
    message = {"product_id": symbol, "timestamp": 1, "seq": number}
    if is_snapshot:
        levels = {"bids": [{"price": number, "qty": 1}], "asks": []}
        return {"feed": "book_snapshot", **message, **levels}
    return {"feed": "book", **message, "side": "buy", "price": number, "qty": 1}


def test_number_without_its_predecessor_counts_on_by_one() -> None:
    def write(symbol: str, previous: int | None, number: int) -> dict[str, Any]:
        return cryptofacilities(symbol, number, is_snapshot=previous is None)

    book = Book("cryptofacilities", write)
    assert book.take("X", 10, 11) == []
    assert book.take("X", None, 11) == [(True, 11)]
    assert book.take("X", 11, 12) == [(False, 12)]
    with pytest.raises(BookGapError):
        book.take("X", 13, 14)


def test_symbol_is_forgotten_however_it_is_written() -> None:
    chain = BookChain()
    chain.begin("BTC-USD", 1)
    chain.begin("ETH-USD", 1)
    chain.forget("btc-usd")
    assert not chain.follows("BTC-USD", 1, 2)
    assert chain.follows("ETH-USD", 1, 2)
