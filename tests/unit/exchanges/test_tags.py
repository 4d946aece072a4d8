"""The tag of a message, with and without decoding it."""

import msgspec
import pytest
from msgspec import Struct

from tardis_machine.exchanges.tags import MAX_TAGS, EndTag, KeyTag, StartTag, Tag, TagTable, TextTag
from tests.unit.exchanges.mapping import LINE_START


class Tagged(Struct):
    """Any message."""

    t: str | None = None


START = StartTag(b'{"t":"', Tagged, lambda message: message.t)
END = EndTag()
KEY = KeyTag("trades", "book")
TEXT = TextTag("t", "kind")


def table(tag: Tag, asked: list[str]) -> TagTable[str]:
    """Make a table that notes what it is asked."""

    def answer(text: str) -> str:
        asked.append(text)
        return text.upper()

    return TagTable(tag, answer, "untagged")


def known(tags: TagTable[str], *messages: bytes) -> list[str | None]:
    """Return what a table knows without being asked."""
    keys = tags.keys([LINE_START + message for message in messages])
    return [tags.known.get(key) for key in keys]


def test_answer_is_found_once_per_tag() -> None:
    asked: list[str] = []
    tags = table(START, asked)
    assert known(tags, b'{"t":"a","n":1}') == [None]
    assert tags.answer(b'{"t":"a","n":1}') == "A"
    assert tags.answer(b'{"t":"a","n":2}') == "A"
    assert tags.answer(b'{"n":3,"t":"a"}') == "A"
    assert asked == ["a"]
    assert known(tags, b'{"t":"a","n":4}', b'{"n":3,"t":"a"}', b'{"t":"b"}') == ["A", None, None]


def test_message_without_tag_has_the_untagged_answer() -> None:
    for tag in (START, END, KEY, TEXT):
        tags = table(tag, [])
        assert tags.answer(b'{"n":1}') == "untagged"
    assert table(START, []).answer(b'{"t":null}') == "untagged"
    assert table(END, []).answer(b'[1,"a",2]') == "untagged"
    assert table(END, []).answer(b'["a"]') == "untagged"
    assert table(KEY, []).answer(b'{"n":{"trades":1}}') == "untagged"


def test_escaped_tag_is_read_as_it_is_meant() -> None:
    asked: list[str] = []
    tags = table(START, asked)
    tags.answer(rb'{"t":"a\u0040b"}')
    tags.answer(rb'{"t":"quote\"d"}')
    assert asked == ["a@b", 'quote"d']
    assert known(tags, rb'{"t":"a\u0040b"}', rb'{"t":"quote\"d"}') == [None, None]


def test_texts_are_found_wherever_they_stand() -> None:
    asked: list[str] = []
    tags = table(TEXT, asked)
    assert tags.answer(b'{"n":1,"t":"a","kind":"b"}') == "A,B"
    assert known(tags, b'{"t":"a","kind":"b"}', b'{"x":[1],"t":"a","kind":"b"}') == ["A,B"] * 2
    assert known(tags, b'{"t":"a","kind":"c"}', b'{"t":"a","n":2,"kind":"b"}') == [None, "A,B"]
    assert known(tags, b'{"kind":"b","t":"a"}') == [None]
    assert tags.answer(b'{"kind":"b" , "t":"a"}') == "A,B"
    assert tags.answer(b'{"t":"a"}') == "untagged"
    assert asked == ["a,b"]


class NumberTag(StartTag):
    """A number, which `{"n":7,"t":"a"}` announces."""

    def __init__(self) -> None:
        super().__init__(b"[", list[int] | Tagged, self._number, end=b",")

    @staticmethod
    def _number(message: list[int] | Tagged) -> str | None:
        return message.t if isinstance(message, Tagged) else str(message[0])

    def announced(self, message: bytes) -> tuple[str, str] | None:
        found = msgspec.json.decode(message)
        return (str(found["n"]), found["t"]) if isinstance(found, dict) else None


def test_number_stands_for_what_was_announced_last() -> None:
    asked: list[str] = []
    tags = table(NumberTag(), asked)
    assert tags.answer(b"[7,1]") == "7"
    assert known(tags, b"[7,2]") == ["7"]
    assert tags.answer(b'{"n":7,"t":"a"}') == "A"
    assert tags.answer(b"[7,3]") == "A"
    assert known(tags, b"[7,4]", b"[8,4]") == ["A", None]
    assert (tags.tag_of(b"[7,5]"), tags.tag_of(b"[8,5]")) == ("a", "8")
    tags.answer(b'{"n":7,"t":"b"}')
    assert tags.answer(b"[7,6]") == "B"


def test_key_may_say_that_there_is_no_tag() -> None:
    tags = table(TextTag("t", unless="event"), [])
    assert tags.answer(b'{"t":"a","n":1}') == "A"
    assert known(tags, b'{"t":"a","n":2}', b'{"event":"x","t":"a"}') == ["A", None]
    assert tags.answer(b'{"event":"x","t":"a"}') == "untagged"
    assert tags.answer(b'{"t" : "a" , "event" : "x"}') == "untagged"


def test_memory_is_bounded_however_many_tags_come() -> None:
    tags = table(START, [])
    for number in range(MAX_TAGS + 10):
        tags.answer(b'{"t":"%d"}' % number)
    assert known(tags, b'{"t":"0"}', b'{"t":"%d"}' % MAX_TAGS) == [None, str(MAX_TAGS)]
    assert tags.answer(b'{"t":"0"}') == "0"


def test_tag_may_end_with_something_else_than_a_quote() -> None:
    number = StartTag(b"[", list[int], lambda message: str(message[0]), end=b",")
    tags = table(number, [])
    assert tags.answer(b"[148,7]") == "148"
    assert known(tags, b"[148,8]", b"[14,8]") == ["148", None]


def test_last_two_texts_of_an_array_are_its_tag() -> None:
    asked: list[str] = []
    tags = table(END, asked)
    message = b'[0,[["5","1"]],"trade","XBT/USD"]'
    assert tags.answer(message) == "TRADE,XBT/USD"
    assert known(tags, b'[0,{"a":[]},{"b":[]},"trade","XBT/USD"]') == ["TRADE,XBT/USD"]
    assert known(tags, b'[0,[],"trade","ETH/USD"]', b'[0,[],"book-10","XBT/USD"]') == [None, None]
    assert tags.answer(b'[0, [], "trade", "XBT/USD"]') == "TRADE,XBT/USD"
    assert asked == ["trade,XBT/USD"]


@pytest.mark.parametrize(
    "message", [b'[0,"comma,","XBT/USD"]', rb'[0,"tr\u0061de","XBT/USD"]', b'["trade","XBT/USD"]']
)
def test_unusual_end_is_decoded_each_time(message: bytes) -> None:
    asked: list[str] = []
    tags = table(END, asked)
    channel, symbol = msgspec.json.decode(message)[-2:]
    assert tags.answer(message) == f"{channel},{symbol}".upper()
    assert known(tags, message) == [None]


def test_first_key_that_is_there_is_the_tag() -> None:
    asked: list[str] = []
    tags = table(KEY, asked)
    assert tags.answer(b'{"sequence":1,"trades":[]}') == "TRADES"
    assert tags.answer(b'{"book":{},"trades":[]}') == "TRADES"
    assert tags.answer(b'{"book":{"asks":[]},"depth":30}') == "BOOK"
    assert tags.answer(b'{"sequence" : 1 , "book" : {}}') == "BOOK"
    assert tags.answer(b'{"book" : {} , "trades" : null}') == "TRADES"
    assert asked == ["trades", "book"]
    assert known(tags, b'{"book":{"asks":[]}}', b'{"other":1}') == ["BOOK", None]


@pytest.mark.parametrize("tag", [START, END, KEY], ids=["start", "end", "key"])
@pytest.mark.parametrize("message", [b"", b"pong", b"{", b"12", b"\xff", b'{"t":"cut'])
def test_message_that_is_no_json_is_an_error(tag: Tag, message: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        table(tag, []).answer(message)
