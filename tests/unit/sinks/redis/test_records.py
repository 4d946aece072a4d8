"""Entries as packed commands, and the ids they may bring."""

from typing import Any

import hiredis
import pytest

from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.redis.records import EntryIds, EntryWriter
from tests.contract.sinks import make_events

DELIVERY = EventBusSettings(producer_id="tester")


def settings(**options: Any) -> RedisSettings:
    return RedisSettings(host="h", stream="s", **options)


def events(count: int) -> list[Event]:
    return make_events(settings().router(), count)


def words(packed: bytes) -> list[str]:
    reader = hiredis.Reader(encoding="utf-8", errors="replace")
    reader.feed(packed)
    return reader.gets()  # type: ignore[no-any-return]


def commands(writer: EntryWriter, sent: list[Event]) -> list[list[str]]:
    return [words(packed) for packed in writer.pack("s", sent)]


def test_entry_has_envelope_and_headers_as_fields() -> None:
    sent = events(1)
    (command,) = commands(EntryWriter(settings(static_headers={"env": "x"}), DELIVERY), sent)
    assert command[:4] == ["XADD", "s", "*", "data"]
    fields = dict(zip(command[5::2], command[6::2], strict=True))
    assert fields == {
        "env": "x",
        "payloadCase": "trade",
        "dataType": "trade",
        "eventId": sent[0].event_id,
        "deliveryId": sent[0].delivery_id,
    }


def test_metadata_cannot_take_the_place_of_the_envelope() -> None:
    writer = EntryWriter(settings(data_field="request_id", meta_headers_prefix=""), DELIVERY)
    (command,) = commands(writer, events(1))
    assert command.count("request_id") == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_length": 9}, ["MAXLEN", "~", "9"]),
        ({"max_length": 9, "trim_exact": True}, ["MAXLEN", "=", "9"]),
    ],
)
def test_last_entry_of_a_batch_trims(options: dict[str, Any], expected: list[str]) -> None:
    *others, last = commands(EntryWriter(settings(**options), DELIVERY), events(3))
    assert last[2:6] == [*expected, "*"]
    assert all(command[2] == "*" for command in others)


def test_age_becomes_the_least_id_to_keep() -> None:
    (command,) = commands(EntryWriter(settings(max_age_ms=1000), DELIVERY), events(1))
    assert command[2:4] == ["MINID", "~"]
    assert int(command[4]) > 1_700_000_000_000


@pytest.mark.parametrize("kind", ["sequence", "content"])
def test_server_that_knows_ids_gets_the_one_configured(kind: Any) -> None:
    delivery = EventBusSettings(producer_id="tester", message_id=kind)
    sent = events(1)
    writer = EntryWriter(settings(max_length=5), delivery, is_idempotent=True)
    (command,) = commands(writer, sent)
    name = sent[0].delivery_id if kind == "sequence" else sent[0].event_id
    assert command[2:9] == ["IDMP", "tester", name, "MAXLEN", "~", "5", "*"]


def test_server_gets_no_id_when_ids_are_off() -> None:
    delivery = EventBusSettings(producer_id="tester", message_id="off")
    (command,) = commands(EntryWriter(settings(), delivery, is_idempotent=True), events(1))
    assert command[2] == "*"


def test_own_ids_rise_with_the_clock_and_within_it() -> None:
    now = 500
    ids = EntryIds(lambda: now)
    ids.start("s", (499, 7))
    first, second, third = events(3)
    given = [ids.give("s", first), ids.give("s", second)]
    now = 501
    assert [*given, ids.give("s", third)] == [b"500-0", b"500-1", b"501-0"]


def test_own_ids_stay_above_what_the_stream_has() -> None:
    ids = EntryIds(lambda: 500)
    ids.start("s", (900, 3))
    assert ids.give("s", events(1)[0]) == b"900-4"


def test_repeated_event_keeps_its_id_until_released() -> None:
    ids = EntryIds(lambda: 500)
    ids.start("s", (0, 0))
    (event,) = events(1)
    first = ids.give("s", event)
    assert not ids.is_repeated(event)
    assert ids.give("s", event) == first
    assert ids.is_repeated(event)
    ids.release(event)
    assert not ids.is_repeated(event)
    assert ids.give("s", event) != first
