"""Levels as text on their way through mappers and computed types: the same records by value."""

from itertools import chain
from typing import Any

import msgspec
import pytest

from tardis_machine.computed.pipeline import Computables
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.protocols import combined_depth
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange, Mapper
from tardis_machine.exchanges.venues.coinbase import mappers as coinbase
from tardis_machine.exchanges.venues.deribit import mappers as deribit
from tardis_machine.exchanges.venues.okex import v5 as okex
from tardis_machine.exchanges.versions import format_at
from tardis_machine.model.compiled import compiled_module
from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import computed_specs
from tardis_machine.model.errors import MappingError
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tardis_machine.model.records import BookChange, EncodedBookChange, Record, decoded
from tardis_machine.sources.simulator import SimulatorSettings, simulate_minutes
from tests.golden.cases import connections, golden_files, new_normalizer
from tests.typed_levels import (
    TypedLevels,
    typed_mappers,
    typed_normalizer,
    with_typed_levels,
)
from tests.unit.exchanges.mapping import LOCAL, feed, map_messages

COMPUTED = computed_specs(["book_snapshot_10_0ms", "book_snapshot_5_100ms", "quote"])
MAPPERS: dict[str, type[Mapper]] = {
    "binance-futures": combined_depth.FuturesBookMapper,
    "coinbase": coinbase.BookMapper,
    "deribit": deribit.BookMapper,
    "okex-swap": okex.BookMapper,
}
MAPPED = [exchange for exchange in REGISTRY.values() if exchange.has_mappers]
IS_COMPILED = compiled_module("tardis_machine.exchanges.compiled_level_texts") is not None


def connect(exchange: str = "binance-futures", *, typed: bool = False) -> Normalizer:
    known, mapper = REGISTRY[exchange], MAPPERS[exchange]
    if typed:
        mapper = with_typed_levels(mapper)
    return Normalizer(exchange, format_at(known, 0, 0), [mapper(exchange, is_live=False)])


def records_of(exchange: str, content: bytes, *, typed: bool) -> list[Record]:
    """Map recorded lines with what is computed of them; an empty line starts over."""
    computables = Computables(COMPUTED)
    records: list[Record] = []
    for lines in content.split(b"\n\n"):
        mapped: list[Record] = []
        connect(exchange, typed=typed).map_lines(lines.strip().splitlines(), mapped.append)
        records += computables.apply(
            [*mapped, Disconnect(exchange=exchange, local_timestamp=LOCAL)]
        )
    return records


@pytest.mark.parametrize("exchange", MAPPERS)
@pytest.mark.parametrize("crossed", [False, True])
def test_responses_are_the_same_with_gaps_and_crossed_books(
    exchange: str, *, crossed: bool
) -> None:
    settings = SimulatorSettings(
        start="2026-06-01", minutes=3, rate=20, with_gaps=True, crossed=crossed
    )
    content = b"".join(minute.content for minute in simulate_minutes(settings, exchange))
    assert b"\n\n" in content
    typed = records_of(exchange, content, typed=True)
    text = records_of(exchange, content, typed=False)
    if IS_COMPILED:
        assert sum(type(record) is EncodedBookChange for record in text) > 1000
    assert not any(type(record) is EncodedBookChange for record in typed)
    assert decode_lines(encode_lines(text)) == decode_lines(encode_lines(typed))
    assert [decoded(record) for record in text] == [decoded(record) for record in typed]


@pytest.mark.parametrize("exchange", MAPPED, ids=lambda exchange: exchange.id)
def test_golden_messages_give_the_same_records(exchange: Exchange) -> None:
    text: list[Record] = []
    typed: list[Record] = []
    mappers: list[TypedLevels] = []
    for lines in chain.from_iterable(map(connections, golden_files(exchange.id))):
        new_normalizer(exchange, lines[0]).map_lines(lines, text.append)
        new = typed_mappers(exchange, lines[0])
        typed_normalizer(exchange, lines[0], new).map_lines(lines, typed.append)
        mappers += new
    assert [decoded(record) for record in text] == typed
    if IS_COMPILED:
        stays_text = any(type(record) is EncodedBookChange for record in text)
        assert stays_text == any(mapper.names_texts for mapper in mappers)


def update(last: int, *bids: list[Any]) -> bytes:
    data = {"E": 1709251200000, "s": "A", "U": 1, "u": last, "pu": last - 1, "b": bids, "a": []}
    return msgspec.json.encode({"stream": "a@depth@0ms", "data": data})


def snapshot(last: int) -> dict[str, object]:
    data = {"lastUpdateId": last, "bids": [["9", "1"], ["8", "1"]], "asks": []}
    return {"stream": "a@depthSnapshot", "generated": True, "data": data}


def test_updates_held_back_as_text_are_joined_to_the_snapshot() -> None:
    levels = [[str(price), "0" if price == 8 else "2"] for price in range(1, 9)]
    messages = [update(5, *levels), snapshot(5), update(6, ["10", "3"])]
    typed, text = feed(connect(typed=True), *messages), feed(connect(), *messages)
    assert [decoded(record) for record in text] == typed
    assert [level.price for level in text[0].bids] == [9, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.skipif(not IS_COMPILED, reason="only compiled code keeps text")
def test_update_stays_text_with_the_digits_of_the_venue() -> None:
    records = map_messages(
        "binance-futures", "book_change", snapshot(5), update(6, ["39.5", "1.250"])
    )
    assert [type(record) for record in records] == [BookChange, EncodedBookChange]
    assert b'{"price":39.5,"amount":1.250}' in encode_lines(records)


@pytest.mark.parametrize("odd", [["1e5", "2"], ["1", "2", []], ["1", "2E1"]])
def test_update_that_is_not_plain_decimals_is_decoded(odd: list[Any]) -> None:
    pairs = [[f"{price}.5", "1"] for price in range(40)]
    messages = [snapshot(5), update(6, *pairs, odd)]
    typed, text = (feed(connect(typed=typed), *messages)[1] for typed in (True, False))
    assert type(text) is BookChange
    assert text == typed


@pytest.mark.parametrize("odd", [["", "1"], ["1"], ["1.2.3", "1"], ["007", "1"], [" 1", "2"]])
def test_update_with_something_else_is_refused(odd: list[str]) -> None:
    for pairs in ([odd], [*([f"{price}.5", "1"] for price in range(40)), odd]):
        with pytest.raises(MappingError):
            feed(connect(), snapshot(5), update(6, *pairs))
