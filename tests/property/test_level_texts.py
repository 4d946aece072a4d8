"""Levels that stay text against the same levels decoded to numbers."""

import json
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from tardis_machine.exchanges.level_texts import level_text
from tardis_machine.exchanges.protocols.combined_depth import Level
from tardis_machine.model.records import BookLevel

decimals = st.from_regex(r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,8})?", fullmatch=True)
# What a venue never sends, and what other parsers take for a number.
oddities = st.sampled_from(
    ["", ".", "1.", ".5", "007", "1.2.3", "-1", "+1", "1e5", " 1", "NaN", "inf", '1"', "\\u0031"]
)
items = decimals | oddities | st.sampled_from([1, 2.5, None, [], "é"])
sides = st.lists(st.lists(items, max_size=3), max_size=4)

_decode_pairs = msgspec.json.Decoder(list[Level], strict=False).decode
_decode_levels = msgspec.json.Decoder(list[BookLevel]).decode


def texts(side: Any) -> list[Raw]:
    """Write a side as venues do, and as others might."""
    return [
        Raw(json.dumps(side, separators=separators, ensure_ascii=ascii_).encode())
        for separators in ((",", ":"), (", ", ": "))
        for ascii_ in (True, False)
    ]


@given(st.lists(st.tuples(decimals, decimals), max_size=30))
def test_pairs_of_decimals_stay_text_with_the_same_values(pairs: list[tuple[str, str]]) -> None:
    compact = texts(pairs)[0]
    text = level_text(compact)
    assert text is not None
    assert _decode_levels(text) == [
        BookLevel(each.price, each.amount) for each in _decode_pairs(compact)
    ]


@given(sides)
@example([["1", "2"], ["3"], ["4", "5", "6"]])
@example([["1"], ["2", "3", "4"]])
@example([["1", "2", []]])
@example([[["1", "2"]]])
def test_what_stays_text_has_the_values_of_its_numbers(side: Any) -> None:
    for raw in texts(side):
        text = level_text(raw)
        if text is not None:
            numbers = _decode_pairs(raw)
            assert _decode_levels(text) == [BookLevel(each.price, each.amount) for each in numbers]
            assert all(len(pair) == 2 for pair in side)
