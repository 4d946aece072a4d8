"""Records made by the places of their fields against those made by their names."""

import gc
import sys
from copy import copy
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from tardis_machine.exchanges.levels import Level, book_change, book_levels
from tardis_machine.model import makers
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import BookLevel, EncodedBookChange, Record

TIMES = ("2024-03-01T00:00:00.000Z", "2024-03-01T00:00:00.001000Z")
SIDES = ([BookLevel(1.5, 2.0)], [])
TEXTS = (Raw(b'[{"price":1.5,"amount":2}]'), Raw(b"[]"))
TRADE = ("BTCUSDT", "binance", "7", 61000.5, 0.25, "buy", *TIMES)
MADE = [
    ("new_trade", TRADE),
    ("new_trade", ("x", "y", UNSET, 1, 2, "unknown", *TIMES)),
    ("new_book_change", ("x", "y", False, *SIDES, *TIMES)),
]


@pytest.mark.parametrize(("name", "values"), MADE)
def test_records_are_those_made_by_name(name: str, values: tuple[Any, ...]) -> None:
    made: Record = getattr(makers, name)(*values)
    named: Record = getattr(makers, f"_{name}")(*values)
    assert type(made) is type(named)
    assert made == named
    assert copy(made) == named
    assert gc.is_tracked(made) == gc.is_tracked(named) == False  # noqa: E712
    assert encode_lines([made]) == encode_lines([named])
    assert msgspec.structs.replace(made, symbol="z") == msgspec.structs.replace(named, symbol="z")


@pytest.mark.parametrize(("name", "values"), MADE)
def test_records_hold_their_fields_once(name: str, values: tuple[Any, ...]) -> None:
    make = getattr(makers, name)
    before = [sys.getrefcount(value) for value in values]
    made = [make(*values) for _ in range(1000)]
    held = [sys.getrefcount(value) for value in values]
    assert all(now - old >= 1000 for old, now in zip(before, held, strict=True))
    made.clear()
    after = [sys.getrefcount(value) for value in values]
    assert all(abs(now - old) < 50 for old, now in zip(before, after, strict=True))


def test_levels_are_those_made_by_name() -> None:
    assert makers.new_level(1.5, 2.0) == BookLevel(1.5, 2.0)
    assert book_levels([Level(1.5, 2.0), Level(3.0, 0.0)]) == [
        BookLevel(1.5, 2.0),
        BookLevel(3.0, 0.0),
    ]
    assert book_levels([]) == []


def test_book_changes_take_levels_or_texts() -> None:
    levels = book_change("x", "y", [Level(1.5, 2.0)], [], *TIMES, is_snapshot=True)
    texts = book_change("x", "y", *TEXTS, *TIMES, is_snapshot=True)
    assert isinstance(texts, EncodedBookChange)
    assert texts.decoded() == levels
    other = book_change("x", "y", [1], [2], *TIMES, is_snapshot=False, read=list)
    assert (other.bids, other.asks, other.is_snapshot) == ([1], [2], False)


def test_too_few_fields_are_refused() -> None:
    with pytest.raises(TypeError):
        makers.new_trade(*TRADE[:-1])  # type: ignore[call-arg]
