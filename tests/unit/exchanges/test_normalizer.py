"""From lines to records: routing, order, failures."""

import msgspec
import pytest

from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.spec import (
    Emit,
    Handler,
    Mapper,
    WireFormat,
)
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.model.control import Disconnect
from tardis_machine.model.errors import MappingError
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import LOCAL, connect, feed, line


class Message(msgspec.Struct):
    """What two mappers read."""

    n: int


class OtherMessage(msgspec.Struct):
    """What one mapper reads."""

    n: int


class Recorder(Mapper):
    """Emits its own class name for each message."""

    struct: type[msgspec.Struct] = Message

    def handler(self, tag: str) -> Handler | None:
        return (self.struct, self.map) if tag == "yes" else None

    def map(self, message: Message, local: str, emit: Emit) -> None:
        emit(Disconnect(exchange=f"{type(self).__name__} {message.n}", local_timestamp=local))


class First(Recorder):
    """Reads `Message`."""


class Second(Recorder):
    """Reads `OtherMessage`."""

    struct = OtherMessage


class Third(Recorder):
    """Reads `Message` again."""


class Tagged(msgspec.Struct):
    """Any message."""

    t: str | None = None


FORMAT = WireFormat(
    tag=StartTag(b'{"t":"', Tagged, lambda message: message.t),
    locate=Filter,
    read_subscribe=lambda message: None,
)


def made_up(*mappers: type[Mapper]) -> Normalizer:
    return Normalizer("made-up", FORMAT, [mapper("made-up", is_live=False) for mapper in mappers])


def test_records_come_in_the_order_of_the_mappers() -> None:
    records = feed(made_up(First, Second, Third), {"t": "yes", "n": 1}, {"n": 2, "t": "yes"})
    assert [record.exchange for record in records] == [
        *("First 1", "Second 1", "Third 1"),
        *("First 2", "Second 2", "Third 2"),
    ]


def test_local_time_loses_its_seventh_digit() -> None:
    (record,) = feed(made_up(First), {"t": "yes", "n": 1})
    assert record.local_timestamp == LOCAL


def test_numbers_may_be_text() -> None:
    (record,) = feed(made_up(First), b'{"t":"yes","n":"7"}')
    assert record.exchange == "First 7"


@pytest.mark.parametrize(
    "error",
    [
        *(TypeError("a"), AttributeError("b"), KeyError("c"), IndexError("d")),
        *(ValueError("e"), ZeroDivisionError("f"), OverflowError("g"), MappingError("h")),
    ],
)
def test_failing_handler_shows_what_was_received(error: Exception) -> None:
    class Failing(First):
        def map(self, message: Message, local: str, emit: Emit) -> None:
            if message.n == 2:
                raise error
            super().map(message, local, emit)

    records: list[Record] = []
    lines = [line({"t": "yes", "n": number}) for number in (1, 2, 3)]
    with pytest.raises(MappingError) as raised:
        made_up(Failing).map_lines(lines, records.append)
    text = str(raised.value)
    assert "Cannot map a message of made-up" in text
    assert '{"t": "yes", "n": 2}' in text
    assert raised.value.__cause__ is error
    assert len(records) == 1


def test_long_message_is_shown_in_part() -> None:
    with pytest.raises(MappingError) as raised:
        feed(made_up(First), {"t": "yes", "n": "x" * 10_000})
    assert len(str(raised.value)) < 500


def test_mapping_goes_on_after_a_failure() -> None:
    normalizer = made_up(First)
    with pytest.raises(MappingError):
        feed(normalizer, {"t": "yes", "n": None})
    assert len(feed(normalizer, {"t": "yes", "n": 1})) == 1


def test_truncated_line_is_an_error_even_after_whole_ones() -> None:
    normalizer = made_up(First)
    feed(normalizer, b'{"t":"yes","n":1}')
    for cut in (b'{"t":"yes","n', b'{"t":"yes', b'{"t":"yesX', b'{"t'):
        with pytest.raises(MappingError, match="made-up"):
            feed(normalizer, cut)


def test_live_message_fails_alike() -> None:
    normalizer = made_up(First)
    records: list[Record] = []
    normalizer.map_message(b'{"t":"yes","n":1}', "2024-03-01T00:00:00.123Z", records.append)
    assert [record.local_timestamp for record in records] == ["2024-03-01T00:00:00.123Z"]  # type: ignore[attr-defined]
    with pytest.raises(MappingError, match="Cannot map a message of made-up"):
        normalizer.map_message(b'{"t":"yes"}', LOCAL, records.append)


def test_symbols_outside_ascii_pass() -> None:
    (record,) = feed(
        connect("bitmex", "trade"),
        '{"table":"trade","action":"insert","data":[{"symbol":"ΑΒГ","price":1,"size":2,'
        '"timestamp":"2024-03-01T00:00:00.000Z"}]}'.encode(),
    )
    assert record.symbol == "ΑΒГ"
