"""Levels that stay text against the same levels decoded to numbers."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from tardis_machine.exchanges.level_texts import action_levels, pair_levels, side_changes
from tardis_machine.exchanges.levels import Level, book_change, book_levels
from tardis_machine.exchanges.venues.coinbase import mappers as coinbase
from tardis_machine.exchanges.venues.deribit import mappers as deribit
from tardis_machine.model.records import decoded

# What a venue never sends, and what other parsers take for a number.
oddities = st.sampled_from(
    ["", ".", "1.", ".5", "007", "1.2.3", "-1", "+1", "1e5", " 1", "NaN", "inf", '1"', "\\u0031"]
)


class Pairs(Struct):
    b: list[Level] = []
    a: list[Level] = []


class Actions(Struct):
    b: list[deribit.LevelChange] = []
    a: list[deribit.LevelChange] = []


class Parts(Struct):
    data: list[Pairs] = []


def change_of(message: Any) -> Any:
    read = deribit.changed_levels if type(message).__name__ == "Actions" else book_levels
    bids, asks = message.b, message.a
    return decoded(book_change("s", "e", bids, asks, "", "", is_snapshot=False, read=read))


def changes_of(decode: Callable[[bytes], Any], message: bytes) -> Any:
    """Return the book changes of a message, or that there are none because it was refused."""
    try:
        found = decode(message)
    except msgspec.DecodeError:
        return "refused"
    if hasattr(found, "changes"):
        bids, asks = coinbase.sides_of(found.changes, "buy")
        return decoded(book_change("s", "e", bids, asks, "", "", is_snapshot=False))
    return [change_of(each) for each in getattr(found, "data", [found])]


DIGITS = "1" * 310
"""More than a double can have."""

numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,8})(\.[0-9]{1,8})?([eE]-?[0-9])?", fullmatch=True)
entries = st.one_of(
    (numbers | oddities).map(json.dumps),
    numbers,
    st.sampled_from(["null", "[]", "{}", "1.", "01", "-", "true", '"new"', '"delete"', '"buy"']),
)
levels = st.lists(entries, max_size=4).map(lambda each: f"[{','.join(each)}]")
labels = st.sampled_from(["new", "delete", "change", "buy", "sell", "", "b\\u0075y"])
labelled = st.builds('["{}",{},{}]'.format, labels, entries, entries)
arrays = st.lists(levels | labelled, max_size=4).map(lambda each: f"[{','.join(each)}]")


@given(arrays, arrays, st.sampled_from(["", " "]))
@example('[["1","2"]]', "[[3,4.5],[-1,0]]", "")
@example('[["new",1,2],["delete",3,4]]', '[["delete",3]]', "")
@example('[["buy","1","2"],["sell","3","0.0"]]', "[]", "")
@example(f'[["{DIGITS}","2"]]', "[]", "")
def test_every_form_of_levels_gives_the_records_of_its_numbers(
    bids: str, asks: str, blank: str
) -> None:
    sides = f'{{"b":{bids}{blank},"a":{asks}}}'.encode()
    listed = b'{"data":[%b,%b]}' % (sides, sides)
    changes = f'{{"product_id":"x","changes":{bids}{blank}}}'.encode()
    for form, struct, message in (
        (pair_levels(Pairs, bids="b", asks="a"), Pairs, sides),
        (pair_levels(Parts, "data", bids="b", asks="a"), Parts, listed),
        (action_levels(Actions, bids="b", asks="a"), Actions, sides),
        (side_changes(coinbase.L2Update, changes="changes"), coinbase.L2Update, changes),
    ):
        typed = msgspec.json.Decoder(struct, strict=False).decode
        # As text, because a number that is none differs from itself.
        assert repr(changes_of(form.decode, message)) == repr(changes_of(typed, message))
