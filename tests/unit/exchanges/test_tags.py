"""The tag of a message, with and without decoding it."""

from msgspec import Struct

from tardis_machine.exchanges.spec import Tag
from tardis_machine.exchanges.tags import MAX_TAGS, TagTable


class Tagged(Struct):
    """Any message."""

    t: str | None = None


TAG = Tag(b'{"t":"', Tagged, lambda message: message.t)


def table(asked: list[str]) -> TagTable[str]:
    """Make a table that notes what it is asked."""

    def answer(tag: str) -> str:
        asked.append(tag)
        return tag.upper()

    return TagTable(TAG, answer, "untagged")


def test_answer_is_found_once_per_tag() -> None:
    asked: list[str] = []
    tags = table(asked)
    assert tags.answer(b'{"t":"a","n":1}') == "A"
    assert tags.answer(b'{"t":"a","n":2}') == "A"
    assert tags.answer(b'{"n":3,"t":"a"}') == "A"
    assert asked == ["a"]
    assert tags.known == {b'{"t":"a': "A"}


def test_message_without_tag_has_the_untagged_answer() -> None:
    tags = table([])
    assert tags.answer(b'{"n":1}') == "untagged"
    assert tags.answer(b'{"t":null}') == "untagged"


def test_escaped_tag_is_read_as_it_is_meant() -> None:
    asked: list[str] = []
    tags = table(asked)
    tags.answer(rb'{"t":"a\u0040b"}')
    tags.answer(rb'{"t":"quote\"d"}')
    assert asked == ["a@b", 'quote"d']
    assert tags.known == {}


def test_memory_is_bounded_however_many_tags_come() -> None:
    tags = table([])
    for number in range(MAX_TAGS + 10):
        tags.answer(b'{"t":"%d"}' % number)
    assert len(tags.known) == 10
    assert tags.answer(b'{"t":"0"}') == "0"
