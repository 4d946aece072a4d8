"""Levels as text on their way through mappers and computed types: the same records by value."""

from typing import Any

import msgspec
import pytest

from tardis_machine.computed.pipeline import Computables
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.protocols.combined_depth import FuturesBookMapper, text_levels
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import format_at
from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import computed_specs
from tardis_machine.model.errors import MappingError
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tardis_machine.model.records import BookChange, EncodedBookChange, Record, decoded
from tardis_machine.sources.simulator import SimulatorSettings, simulate_minutes
from tests.unit.exchanges.mapping import LOCAL, feed, map_messages

EXCHANGE = REGISTRY["binance-futures"]
COMPUTED = computed_specs(["book_snapshot_10_0ms", "book_snapshot_5_100ms", "quote"])


class TypedMapper(FuturesBookMapper):
    """Decodes the levels of every message."""

    depth = text_levels(long_bytes=1 << 30)


class TextMapper(FuturesBookMapper):
    """Keeps the levels of every message as text."""

    depth = text_levels(long_bytes=0)


def connect(mapper: type[FuturesBookMapper]) -> Normalizer:
    wire_format = format_at(EXCHANGE, 0, 0)
    return Normalizer(EXCHANGE.id, wire_format, [mapper(EXCHANGE.id, is_live=False)])


def records_of(mapper: type[FuturesBookMapper], content: bytes) -> list[Record]:
    """Map recorded lines with what is computed of them; an empty line starts over."""
    computables = Computables(COMPUTED)
    records: list[Record] = []
    for lines in content.split(b"\n\n"):
        mapped: list[Record] = []
        connect(mapper).map_lines(lines.strip().splitlines(), mapped.append)
        records += computables.apply(
            [*mapped, Disconnect(exchange=EXCHANGE.id, local_timestamp=LOCAL)]
        )
    return records


@pytest.mark.parametrize("crossed", [False, True])
def test_responses_are_the_same_with_gaps_and_crossed_books(*, crossed: bool) -> None:
    settings = SimulatorSettings(minutes=3, rate=20, with_gaps=True, crossed=crossed)
    content = b"".join(minute.content for minute in simulate_minutes(settings, EXCHANGE.id))
    assert b"\n\n" in content
    typed, text = records_of(TypedMapper, content), records_of(TextMapper, content)
    assert sum(type(record) is EncodedBookChange for record in text) > 1000
    assert not any(type(record) is EncodedBookChange for record in typed)
    assert decode_lines(encode_lines(text)) == decode_lines(encode_lines(typed))
    assert [decoded(record) for record in text] == [decoded(record) for record in typed]


def update(last: int, *bids: list[Any]) -> bytes:
    data = {"E": 1709251200000, "s": "A", "U": 1, "u": last, "pu": last - 1, "b": bids, "a": []}
    return msgspec.json.encode({"stream": "a@depth@0ms", "data": data})


def snapshot(last: int) -> dict[str, object]:
    data = {"lastUpdateId": last, "bids": [["9", "1"], ["8", "1"]], "asks": []}
    return {"stream": "a@depthSnapshot", "generated": True, "data": data}


def test_updates_held_back_as_text_are_joined_to_the_snapshot() -> None:
    levels = [[str(price), "0" if price == 8 else "2"] for price in range(1, 9)]
    messages = [update(5, *levels), snapshot(5), update(6, ["10", "3"])]
    typed, text = feed(connect(TypedMapper), *messages), feed(connect(TextMapper), *messages)
    assert [decoded(record) for record in text] == typed
    assert [level.price for level in text[0].bids] == [9, 1, 2, 3, 4, 5, 6, 7]


def test_long_update_stays_text_and_a_short_one_does_not() -> None:
    long = update(6, *([f"{price}.5", "1.250"] for price in range(40)))
    records = map_messages("binance-futures", "book_change", snapshot(5), update(6), long)
    assert [type(record) for record in records] == [BookChange, BookChange, EncodedBookChange]
    assert b'{"price":39.5,"amount":1.250}' in encode_lines(records)


@pytest.mark.parametrize("odd", [["1e5", "2"], ["1", "2", []], [1.5, 2], ["-1", "2"]])
def test_long_update_that_is_not_pairs_of_decimals_is_decoded(odd: list[Any]) -> None:
    pairs = [[f"{price}.5", "1"] for price in range(40)]
    messages = [snapshot(5), update(6, *pairs, odd)]
    typed, text = (feed(connect(mapper), *messages)[1] for mapper in (TypedMapper, TextMapper))
    assert type(text) is BookChange
    assert text == typed


@pytest.mark.parametrize("odd", [["", "1"], ["1"], ["1.2.3", "1"], ["007", "1"], [" 1", "2"]])
def test_long_update_with_something_else_is_refused_as_a_short_one_is(odd: list[str]) -> None:
    for pairs in ([odd], [*([f"{price}.5", "1"] for price in range(40)), odd]):
        with pytest.raises(MappingError):
            feed(connect(TextMapper), snapshot(5), update(6, *pairs))
