"""Events as Kinesis records: what is appended to envelopes, what is packed, where it goes."""

from collections.abc import Mapping
from typing import Any

import pytest

from tardis_machine.bronze.envelope import parse_event
from tardis_machine.buses.kinesis.aggregation import aggregate, event_bytes, overhead_bytes, varint
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.dead_letters.files import dead_letter_event
from tardis_machine.sinks.kinesis.records import RecordMaker, meta_entry
from tardis_machine.sinks.kinesis.shards import Bucket, Shards, hash_key_of
from tests.contract.sinks import enlarged, make_events
from tests.integration.sinks.packed_records import AggregatedRecord, unpack


def settings_with(**options: Any) -> KinesisSettings:
    return KinesisSettings(stream="s", region="us-east-1", **options)


def made(count: int, **options: Any) -> tuple[RecordMaker, list[Event]]:
    settings = settings_with(**options)
    return RecordMaker(settings), make_events(settings.router(), count)


def meta_of(data: bytes) -> Mapping[str, str]:
    return dict(parse_event(data).meta)


def test_envelope_gains_the_delivery_id_and_keeps_its_bytes() -> None:
    maker, (event,) = made(1)
    data = maker.data(event)
    assert data.startswith(event.data)
    assert meta_of(data)["delivery_id"] == event.delivery_id
    parsed = parse_event(data)
    parsed.meta.pop("delivery_id")
    assert parsed == parse_event(event.data)


@pytest.mark.parametrize("size", [1, 99, 100, 101, 127, 128, 5000])
def test_delivery_id_of_any_length_is_read_back(size: int) -> None:
    maker, (event,) = made(1)
    event.delivery_id = "x" * size
    assert meta_of(maker.data(event))["delivery_id"] == "x" * size


def test_static_headers_go_to_meta_but_never_over_the_servers_own() -> None:
    given = {"env": "täst", "request_id": "mine", "data_type": "mine"}
    maker, (event,) = made(1, static_headers=given)
    meta = meta_of(maker.data(event))
    assert (meta["env"], meta["request_id"], meta["data_type"]) == ("täst", "r-1", "trade")


def test_dead_letter_says_why_it_is_one() -> None:
    maker, (event,) = made(1)
    letter = dead_letter_event(event, Result(Outcome.BAD_RECORD, "too_large", "why"), "dead")
    meta = meta_of(maker.data(letter))
    assert meta["deadLetterReason"] == "too_large"


def test_meta_entry_with_long_texts_is_valid() -> None:
    parsed = parse_event(meta_entry("k" * 300, "v" * 70_000))
    assert dict(parsed.meta) == {"k" * 300: "v" * 70_000}


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16_383, 16_384, 2**32])
def test_varint_reads_back(number: int) -> None:
    encoded = varint(number)
    assert sum((byte & 127) << 7 * place for place, byte in enumerate(encoded)) == number


def test_packed_record_has_the_published_form() -> None:
    record = aggregate("key", "42", [b"one", b"two" * 100])
    message = AggregatedRecord.FromString(record[4:-16])
    assert list(message.partition_key_table) == ["key"]
    assert list(message.explicit_hash_key_table) == ["42"]
    assert [one.explicit_hash_key_index for one in message.records] == [0, 0]
    assert unpack(record) == [b"one", b"two" * 100]
    datas = [b"", b"x" * 127, b"x" * 20_000]
    bound = overhead_bytes("ü" * 50, None) + sum(map(event_bytes, datas))
    assert len(aggregate("ü" * 50, None, datas)) <= bound


def test_events_of_a_key_are_packed_in_order_up_to_the_size() -> None:
    maker, events = made(50, aggregation="kpl", aggregation_max_bytes=1024)
    members = [(place, event, maker.data(event)) for place, event in enumerate(events)]
    records = list(maker.packed(members))
    assert 1 < len(records) < 50
    assert [place for record in records for place in record.places] == list(range(50))
    assert all(len(record.entry["Data"]) <= 1024 for record in records)
    unpacked = [data for record in records for data in unpack(record.entry["Data"])]
    assert unpacked == [data for _, _, data in members]


def test_event_too_large_to_pack_goes_as_it_is() -> None:
    maker, events = made(3, aggregation="kpl", aggregation_max_bytes=1024)
    events[1] = enlarged(events[1], 2000)
    members = [(place, event, maker.data(event)) for place, event in enumerate(events)]
    records = list(maker.packed(members))
    assert [record.places for record in records] == [[0], [1], [2]]
    assert records[1].entry["Data"] == members[1][2]


def test_record_counts_data_and_key_in_bytes() -> None:
    maker, events = made(1, partition_key_template="ü")
    record = maker.record(0, events[0], b"12345")
    assert record.size_bytes == 7
    assert record.hash_key == hash_key_of("ü")
    assert "ExplicitHashKey" not in record.entry


def test_pinned_symbol_decides_the_hash_key() -> None:
    maker, events = made(1, explicit_hash_key="symbol")
    record = maker.record(0, events[0], b"x")
    assert record.entry["ExplicitHashKey"] == str(hash_key_of("bitmex|XBTUSD"))
    assert record.hash_key == int(record.entry["ExplicitHashKey"])


def shard(name: str, first: int, *, is_closed: bool = False) -> dict[str, Any]:
    numbers = {"StartingSequenceNumber": "1"} | ({"EndingSequenceNumber": "2"} if is_closed else {})
    return {
        "ShardId": name,
        "HashKeyRange": {"StartingHashKey": str(first), "EndingHashKey": "x"},
        "SequenceNumberRange": numbers,
    }


def test_hash_keys_find_their_open_shard() -> None:
    described = [shard("b", 1000), shard("old", 0, is_closed=True), shard("a", 0)]
    shards = Shards(described, 1.0)
    assert shards.ids == {"a", "b"}
    first, second = shards.bucket(0), shards.bucket(1000)
    assert first is not None
    assert shards.bucket(999) is first
    assert second is not first
    assert shards.bucket(2**127) is second
    assert Shards([], 1.0).bucket(5) is None


def test_bucket_gives_its_limits_of_one_second_and_refills() -> None:
    now = [0.0]
    bucket = Bucket(0.5, clock=lambda: now[0])
    assert sum(bucket.take(1) for _ in range(1000)) == 500
    now[0] = 0.1
    assert sum(bucket.take(1) for _ in range(1000)) == 50
    now[0] = 100.0
    assert sum(bucket.take(1) for _ in range(1000)) == 500


def test_bucket_counts_bytes_and_lets_a_giant_pass_when_full() -> None:
    now = [0.0]
    bucket = Bucket(1.0, clock=lambda: now[0])
    assert bucket.take(5_000_000)
    assert not bucket.take(1)
    now[0] = 6.0
    assert bucket.take(1)


def test_emptied_bucket_gives_nothing_at_once() -> None:
    now = [0.0]
    bucket = Bucket(1.0, clock=lambda: now[0])
    bucket.empty()
    assert not bucket.take(1)
    now[0] = 0.01
    assert bucket.take(1)
