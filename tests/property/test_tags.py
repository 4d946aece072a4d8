"""The answer that a key recalls against the answer that decoding the message gives."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tardis_machine.exchanges.lines import MESSAGE_START
from tardis_machine.exchanges.tags import EndTag, KeyTag, StartTag, Tag, TagTable, TextTag
from tests.unit.exchanges.mapping import LINE_START


class Tagged(msgspec.Struct):
    """A message or a part of it."""

    t: str | None = None


class Wrapped(msgspec.Struct):
    """A message whose tag is inside."""

    p: Tagged | None = None


def first_number(message: list[Any]) -> str | None:
    """Return the first item if it is a whole number."""
    return str(message[0]) if message and type(message[0]) is int else None


# Few short texts, so that tags meet again, and everything that ends texts, items and messages.
texts = st.sampled_from(["a", "b", "a,b", ""]) | st.text('ab,"\\[]{}:é ', max_size=6)
scalars = st.sampled_from([None, True, 0, -1.5, '"k":', '"l":']) | texts
shallow = scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars, max_size=2)
values = scalars | st.lists(shallow, max_size=2) | st.dictionaries(texts, shallow, max_size=2)
arrays = st.lists(values, max_size=4)


def objects(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Make objects that may have these keys, and others."""
    return st.dictionaries(st.sampled_from(names) | texts, st.none() | values, max_size=4)


starting = st.builds(lambda text, rest: {"t": text} | rest, texts, objects("t"))
wrapping = st.builds(lambda inner, rest: {"m": "s", "p": inner} | rest, starting, objects("m", "p"))
inside = st.builds(lambda inner, rest: rest | {"p": inner}, objects("k"), objects("p"))
ending = st.builds(lambda head, channel, symbol: [*head, channel, symbol], arrays, texts, texts)
numbered = st.builds(lambda number, rest: [number, *rest], st.integers(-12, 12), arrays)

KINDS: dict[str, tuple[Tag, st.SearchStrategy[Any]]] = {
    "start": (
        StartTag(b'{"t":"', Tagged, lambda message: message.t),
        starting | objects("t") | arrays,
    ),
    "start inside": (
        StartTag(b'{"m":"s","p":{"t":"', Wrapped, lambda message: message.p and message.p.t),
        wrapping | objects("m", "p") | arrays,
    ),
    "number": (StartTag(b"[", list[Any], first_number, end=b","), numbered | arrays),
    "end": (EndTag(), ending | arrays | objects("t")),
    # The texts above cannot spell these keys, so none of them occurs deeper inside a message.
    "key": (KeyTag("k", "l"), objects("k", "l") | arrays),
    "text": (TextTag("k"), objects("k") | arrays),
    "text unless a key": (TextTag("k", unless="l"), objects("k", "l") | arrays),
    "texts": (TextTag("k", "l"), objects("k", "l") | arrays),
    "texts inside and outside": (TextTag("l", "p.k"), inside | objects("l", "p") | arrays),
    "text inside": (TextTag("p.k"), inside | objects("p") | arrays),
}

WRITERS = [
    partial(json.dumps, separators=separators, ensure_ascii=ensure_ascii)
    for separators in ((",", ":"), (", ", ": "), (" , ", " : "))
    for ensure_ascii in (False, True)
]
"""JSON without and with blanks, and escapes."""


def answer(tag: str | None) -> str:
    return "untagged" if tag is None else f"answer for {tag}"


def decoded(tag: Tag, message: bytes) -> str:
    """Return the answer without any memory."""
    try:
        return answer(tag.read(message))
    except msgspec.DecodeError:
        return "error"


def recalled(table: TagTable[str], message: bytes) -> str:
    """Return the answer as whoever reads recorded lines gets it."""
    line = LINE_START + message
    [key] = table.keys([line])
    try:
        return table.known.get(key) or table.answer(line[MESSAGE_START:])
    except msgspec.DecodeError:
        return "error"


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), write=st.sampled_from(WRITERS))
def test_recalled_answer_is_that_of_decoding(
    kind: str, data: st.DataObject, write: Callable[[Any], str]
) -> None:
    tag, messages = KINDS[kind]
    table = TagTable(tag, answer, answer(None))
    for message in data.draw(st.lists(messages, max_size=12)):
        text = write(message).encode()
        assert recalled(table, text) == decoded(tag, text)
