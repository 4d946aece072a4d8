"""Checksums of live books: the worked examples of the venues, and what a mismatch does."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias
from zlib import crc32

import pytest

from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.protocols.checksums import (
    MOST_MISMATCHES,
    alternating_sum,
    asks_first_sum,
)
from tardis_machine.model.errors import BookGapError
from tests.unit.exchanges.mapping import connect_live

Levels: TypeAlias = Sequence[tuple[str, str]]

KRAKEN_BIDS = [
    *(("45283.5", "0.10000000"), ("45283.4", "1.54582015"), ("45282.1", "0.10000000")),
    *(("45281.0", "0.10000000"), ("45280.3", "1.54592586"), ("45279.0", "0.07990000")),
    *(("45277.6", "0.03310103"), ("45277.5", "0.30000000"), ("45277.3", "1.54602737")),
    ("45276.6", "0.15445238"),
]
KRAKEN_ASKS = [
    *(("45285.2", "0.00100000"), ("45286.4", "1.54571953"), ("45286.6", "1.54571109")),
    *(("45289.6", "1.54560911"), ("45290.2", "0.15890660"), ("45291.8", "1.54553491")),
    *(("45294.7", "0.04454749"), ("45296.1", "0.35380000"), ("45297.5", "0.09945542")),
    ("45299.5", "0.18772827"),
]
KRAKEN_SUM = 3310070434
"""As Kraken's guide to the checksum of WebSocket v2 has it, with the levels above."""

OKX_BIDS = [("3366.1", "7")]
OKX_ASKS = [("3366.8", "9"), ("3368", "8"), ("3372", "8")]
OKX_SUM = 831078360
"""As OKX's guide to the checksum has it, with the levels above."""


def test_kraken_example() -> None:
    assert asks_first_sum(KRAKEN_BIDS, KRAKEN_ASKS) == KRAKEN_SUM


def test_okx_examples() -> None:
    assert alternating_sum(OKX_BIDS, OKX_ASKS) == OKX_SUM
    bids, asks = [("3366.1", "7"), ("3366", "6")], [("3366.8", "9"), ("3368", "8")]
    assert alternating_sum(bids, asks) == -1881014294


def signed(text: str) -> int:
    return int.from_bytes(crc32(text.encode()).to_bytes(4), signed=True)


class KrakenBook:
    exchange = "kraken"
    bids, asks, checksum = KRAKEN_BIDS, KRAKEN_ASKS, KRAKEN_SUM
    removed = crc32(
        b"45286415457195345286615457110945289615456091145290215890660452918154553491"
        b"452947445474945296135380000452975994554245299518772827"
        b"4528351000000045283415458201545282110000000452810100000004528031545925864527907990000"
        b"45277633101034527753000000045277315460273745276615445238"
    )
    """Of the book without its first ask."""

    @staticmethod
    def write(kind: str, number: int, bids: Levels, asks: Levels, checksum: object) -> bytes:
        sides = [
            f'"{name}":[{",".join(f"""{{"price":{p},"qty":{q}}}""" for p, q in levels)}]'
            for name, levels in (("bids", bids), ("asks", asks))
        ]
        item = f'{{"symbol":"X",{",".join(sides)},"checksum":{json.dumps(checksum)}}}'
        return f'{{"channel":"book","type":"{kind}","data":[{item}]}}'.encode()


class OkxBook:
    exchange = "okex"
    bids, asks, checksum = OKX_BIDS, OKX_ASKS, OKX_SUM
    removed = signed("3366.1:7:3368:8:3372:8")

    @staticmethod
    def write(kind: str, number: int, bids: Levels, asks: Levels, checksum: object) -> bytes:
        levels = {
            name: [[price, amount, "0", "1"] for price, amount in side]
            for name, side in (("bids", bids), ("asks", asks))
        }
        ids = {"seqId": number, "prevSeqId": number - 1 if kind == "update" else -1}
        item = levels | ids | {"ts": "1", "checksum": checksum}
        arg = {"channel": "books", "instId": "X"}
        message = {"arg": arg, "action": kind, "data": [item]}
        return json.dumps(message, separators=(",", ":")).encode()


class OkcoinBook(OkxBook):
    exchange = "okcoin"


class BitgetBook:
    exchange = "bitget"
    bids, asks, checksum = OKX_BIDS, OKX_ASKS, OKX_SUM
    removed = OkxBook.removed

    @staticmethod
    def write(kind: str, number: int, bids: Levels, asks: Levels, checksum: object) -> bytes:
        item = {"b": bids, "a": asks, "seq": number, "pseq": number - 1, "ts": "1"}
        arg = {"instType": "spot", "topic": "books", "symbol": "X"}
        message = {"action": kind, "arg": arg, "data": [item | {"checksum": checksum}]}
        return json.dumps(message, separators=(",", ":")).encode()


VENUES: list[Any] = [KrakenBook, OkxBook, OkcoinBook, BitgetBook]


class Live:
    """The live books of one connection; a second passes with every message."""

    def __init__(self, venue: Any) -> None:
        self._venue = venue
        self._normalizer: Normalizer = connect_live(venue.exchange, "book_change")
        self._number = 0

    def take(self, kind: str, *, second: int | None = None, **fields: Any) -> list[bool]:
        """Return, per record, whether it is a snapshot."""
        self._number += 1
        second = self._number if second is None else second
        sides = {"bids": fields.pop("bids", []), "asks": fields.pop("asks", [])}
        message = self._venue.write(kind, self._number, **sides, **fields)
        records: list[Any] = []
        local = f"2026-09-01T00:00:{second:02}.000Z"
        self._normalizer.map_message(message, local, records.append)
        return [record.is_snapshot for record in records]

    def begin(self, checksum: object = None) -> list[bool]:
        """Take the snapshot of the example, with its own checksum or another."""
        venue = self._venue
        value = venue.checksum if checksum is None else checksum
        return self.take("snapshot", bids=venue.bids, asks=venue.asks, checksum=value)

    def remove_first_ask(self, checksum: object, second: int | None = None) -> list[bool]:
        price, _ = self._venue.asks[0]
        return self.take("update", asks=[(price, "0")], checksum=checksum, second=second)


@pytest.mark.parametrize("venue", VENUES, ids=lambda venue: venue.exchange)
class TestChecksums:
    def test_books_that_add_up_pass(self, venue: Any) -> None:
        live = Live(venue)
        assert live.begin() == [True]
        assert live.remove_first_ask(venue.removed) == [False]
        assert live.take("update", asks=venue.asks[:1], checksum=venue.checksum) == [False]

    def test_mismatch_is_a_gap_and_the_book_waits_for_a_snapshot(self, venue: Any) -> None:
        live = Live(venue)
        live.begin()
        with pytest.raises(BookGapError, match="adds up to") as caught:
            live.remove_first_ask(venue.removed + 1)
        assert caught.value.symbol == "X"
        assert live.remove_first_ask(venue.removed) == []
        assert live.begin() == [True]
        assert live.remove_first_ask(venue.removed) == [False]

    @pytest.mark.parametrize("checksum", [1, 0, None, "text"])
    def test_checksum_that_never_fitted_is_ignored(self, venue: Any, checksum: object) -> None:
        live = Live(venue)
        assert live.begin(checksum if checksum is not None else 0) == [True]
        assert live.remove_first_ask(checksum) == [False]
        assert live.remove_first_ask(venue.removed + 1) == [False]

    @pytest.mark.parametrize("checksum", [0, None])
    def test_venue_that_stops_sending_checksums_causes_no_gap(
        self, venue: Any, checksum: object
    ) -> None:
        live = Live(venue)
        live.begin()
        assert live.remove_first_ask(checksum) == [False]

    def test_book_is_compared_once_per_second(self, venue: Any) -> None:
        live = Live(venue)
        live.begin()
        assert live.remove_first_ask(venue.removed, second=50) == [False]
        assert live.remove_first_ask(1, second=50) == [False]
        with pytest.raises(BookGapError):
            live.remove_first_ask(1, second=51)

    def test_formula_that_fails_again_and_again_is_given_up(self, venue: Any) -> None:
        live = Live(venue)
        for _ in range(MOST_MISMATCHES):
            live.begin()
            with pytest.raises(BookGapError):
                live.remove_first_ask(1)
        live.begin()
        assert live.remove_first_ask(1) == [False]


def test_only_the_best_levels_count() -> None:
    live = Live(OkxBook)
    deep = [(str(4000 + number), "1") for number in range(30)]
    best = [*OKX_ASKS, *deep][:25]
    text = ":".join(f"{price}:{amount}" for price, amount in [*OKX_BIDS, *best])
    live.take("snapshot", bids=OKX_BIDS, asks=[*OKX_ASKS, *deep], checksum=signed(text))
    assert live.take("update", asks=[("4029", "2")], checksum=signed(text)) == [False]
    with pytest.raises(BookGapError):
        live.take("update", asks=[("4000", "2")], checksum=signed(text))
