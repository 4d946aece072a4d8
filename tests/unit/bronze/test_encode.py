from itertools import product

import pytest
from msgspec import Raw, structs

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.decode import Decoder
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import Envelope, parse_event
from tardis_machine.bronze.series import Origin
from tardis_machine.model.control import Disconnect
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import (
    BookLevel,
    BookSnapshot,
    EncodedBookSnapshot,
    SnapshotLevel,
    Trade,
)
from tardis_machine.model.time import us_text
from tests.unit.bronze.records import LOCAL_US, book_change, snapshot, trade

INGEST_US = LOCAL_US + 250_000


def encode(*records: NormalizedRecord, origin: Origin = Origin.REPLAY) -> list[Envelope]:
    return Encoder("producer-1", origin).encode(records, INGEST_US)


def ordinals(envelopes: list[Envelope]) -> list[int]:
    written = [parse_event(envelope.data).ordinal for envelope in envelopes]
    assert written == [envelope.ordinal for envelope in envelopes]
    return written


def test_envelope_carries_what_routing_needs() -> None:
    (envelope,) = encode(trade())
    series = envelope.series
    assert (series.case, series.exchange, series.symbol) == (PayloadCase.TRADE, "bitmex", "XBTUSD")
    assert (series.source, series.origin, series.data_type) == (
        "producer-1",
        Origin.REPLAY,
        "trade",
    )
    assert envelope.local_us == LOCAL_US


def test_events_of_one_series_share_one_object() -> None:
    encoder = Encoder("producer-1", Origin.REPLAY)
    first = encoder.encode([trade(), book_change()], INGEST_US)
    second = encoder.encode([trade()], INGEST_US)
    assert first[0].series is second[0].series
    assert first[0].series is not first[1].series


def test_metadata_and_data_type_are_in_the_envelope() -> None:
    encoder = Encoder("producer-1", Origin.ARCHIVE, {"request_id": "r-1"})
    envelopes = encoder.encode([trade(), snapshot(name="quote_1s")], INGEST_US)
    events = [parse_event(envelope.data) for envelope in envelopes]
    assert dict(events[0].meta) == {"request_id": "r-1", "data_type": "trade"}
    assert dict(events[1].meta) == {"request_id": "r-1", "data_type": "quote_1s"}
    assert events[0].source == "producer-1"
    assert events[0].origin == 3
    assert events[0].ingest_ts.ToMicroseconds() == INGEST_US


def test_records_at_the_same_local_time_are_numbered() -> None:
    assert ordinals(encode(trade(), trade(), trade())) == [0, 1, 2]


def test_numbering_is_separate_for_each_series() -> None:
    records = (
        trade(),
        trade(symbol="ETHUSD"),
        book_change(),
        snapshot(name="book_snapshot_1_0ms"),
        snapshot(name="book_snapshot_1_1s"),
        snapshot(name="book_snapshot_1_0ms"),
        trade(),
    )
    assert ordinals(encode(*records)) == [0, 0, 0, 0, 0, 1, 1]


def test_clock_that_steps_back_does_not_repeat_an_identity() -> None:
    earlier = us_text(LOCAL_US - 1)
    records = (trade(local_timestamp=earlier), trade(), trade(local_timestamp=earlier), trade())
    envelopes = encode(*records)
    assert ordinals(envelopes) == [0, 0, 1, 1]
    assert len({envelope.identity for envelope in envelopes}) == 4


def test_ordinal_falls_back_to_zero_in_the_reused_message() -> None:
    later = us_text(LOCAL_US + 1)
    assert ordinals(encode(trade(), trade(), trade(local_timestamp=later))) == [0, 1, 0]


def test_nothing_of_the_record_before_is_left_in_the_next() -> None:
    rich = trade(id="1")
    poor = structs.replace(rich, id=trade().id)
    full = snapshot(bids=[SnapshotLevel(1.0, 2.0)] * 2, depth=2, grouping=5)
    empty = snapshot(bids=[], depth=2, grouping=5)
    records = [
        rich,
        poor,
        book_change(bids=[BookLevel(1.0, 2.0)]),
        book_change(bids=[]),
        full,
        empty,
        Disconnect(exchange="bitmex", local_timestamp=us_text(LOCAL_US), symbols=["XBTUSD"]),
        Disconnect(exchange="bitmex", local_timestamp=us_text(LOCAL_US)),
    ]
    envelopes = encode(*records)
    assert Decoder().decode(envelope.data for envelope in envelopes) == records


def test_book_changes_of_every_shape_are_written_as_by_a_fresh_encoder() -> None:
    sides = [[], [BookLevel(1.0, 2.0)], [BookLevel(3.0, 0.0), BookLevel(4.0, 5.0)]]
    times = ["2024-03-01T00:00:00.120Z", "2024-03-01T00:00:01.000001Z"]
    records = [
        book_change(
            bids=bids,
            asks=asks,
            is_snapshot=is_snapshot,
            timestamp=timestamp,
            local_timestamp=us_text(LOCAL_US + number),
        )
        for number, (bids, asks, is_snapshot, timestamp) in enumerate(
            product(sides, sides, (True, False), times)
        )
    ]
    together = [envelope.data for envelope in encode(*records, *reversed(records))]
    alone = [encode(record)[0].data for record in records]
    assert together[: len(records)] == alone
    assert Decoder().decode(together) == [*records, *reversed(records)]


def test_more_records_than_one_message_serves_are_all_encoded() -> None:
    records = [trade(id=str(number)) for number in range(10_000)]
    envelopes = encode(*records)
    assert Decoder().decode(envelope.data for envelope in envelopes) == records


def test_snapshot_with_levels_as_json_gives_the_same_envelope() -> None:
    plain = snapshot(bids=[SnapshotLevel(1.5, 2.0), SnapshotLevel()], asks=[], depth=2)
    fields = {name: getattr(plain, name) for name in BookSnapshot.__struct_fields__}
    fields |= {"bids": [Raw(b'{"price":1.5,"amount":2.0}'), Raw(b"{}")], "asks": []}
    encoded: NormalizedRecord = EncodedBookSnapshot(**fields)  # type: ignore[assignment]
    envelopes = encode(plain, encoded)
    # They are two events of one series at one time.
    assert [envelope.ordinal for envelope in envelopes] == [0, 1]
    assert Decoder().decode(envelope.data for envelope in envelopes) == [plain, plain]


def test_cases_that_nobody_wants_are_skipped() -> None:
    encoder = Encoder("producer-1", Origin.REPLAY, cases={PayloadCase.QUOTE})
    records = [trade(), snapshot(name="quote"), snapshot(name="book_snapshot_1_0ms"), trade()]
    envelopes = encoder.encode(records, INGEST_US)
    assert [envelope.series.case for envelope in envelopes] == [PayloadCase.QUOTE]


UNENCODABLE = [
    trade(timestamp="yesterday"),
    trade(local_timestamp="2024-03-01T00:00:00Z"),
    trade(local_timestamp=""),
    trade(side="both"),
    trade(symbol="\ud800"),
    snapshot(depth=2**31),
    snapshot(interval=10**400),
    snapshot(bids=[SnapshotLevel(), SnapshotLevel(1.0, 2.0)]),
    snapshot(bids=[SnapshotLevel(price=1.0)]),
    snapshot(bids=[SnapshotLevel(price=1.0), SnapshotLevel(amount=1.0)]),
]


@pytest.mark.parametrize("record", UNENCODABLE)
def test_record_that_does_not_fit_raises(record: Trade | BookSnapshot) -> None:
    with pytest.raises(EnvelopeError, match=r"^\w+ of bitmex:.* cannot be encoded: "):
        encode(record)


def test_object_that_is_no_record_raises() -> None:
    with pytest.raises(EnvelopeError, match="int of : cannot be encoded"):
        encode(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("record", UNENCODABLE)
def test_records_after_a_rejected_one_are_encoded(record: Trade | BookSnapshot) -> None:
    rejected: list[int] = []
    encoder = Encoder("producer-1", Origin.REPLAY)
    good = [trade(symbol="ETHUSD"), snapshot(symbol="ETHUSD")]
    first, *others = encoder.encode_each(
        [record, *good], INGEST_US, lambda place, _: rejected.append(place)
    )
    assert first is None
    assert Decoder().decode(each.data for each in others if each is not None) == good
    assert rejected == [0]
