from collections.abc import Callable

import pytest

from tardis_machine.bronze.decode import Decoder, UnknownPayloadError
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import parse_event
from tardis_machine.bronze.series import Origin
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import SnapshotLevel
from tests.unit.bronze.records import LOCAL_US, book_change, snapshot, trade


def encode(record: NormalizedRecord) -> bytes:
    (envelope,) = Encoder("producer-1", Origin.REPLAY).encode([record], LOCAL_US)
    return envelope.data


def changed(record: NormalizedRecord, change: Callable[[pb.NormalizedEvent], object]) -> bytes:
    """Return the envelope of a record after its message was changed."""
    event = parse_event(encode(record))
    change(event)
    return event.SerializeToString()


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\xff" * 20,
        b"not protobuf at all",
        encode(trade())[:-1],
        changed(trade(), lambda event: setattr(event.trade, "side", 0)),
        changed(trade(), lambda event: setattr(event.trade, "side", 99)),
        changed(trade(), lambda event: setattr(event.local_ts, "nanos", -1)),
        changed(trade(), lambda event: setattr(event.local_ts, "nanos", 2_000_000_000)),
        changed(trade(), lambda event: setattr(event.local_ts, "seconds", 2**62)),
        changed(book_change(), lambda event: event.book_change.bid_prices.append(1.0)),
        changed(snapshot(), lambda event: setattr(event.book_snapshot, "depth", -1)),
        changed(snapshot(), lambda event: setattr(event.book_snapshot, "depth", 2**31 - 1)),
        changed(
            snapshot(bids=[SnapshotLevel(1.0, 2.0)], depth=1),
            lambda event: setattr(event.book_snapshot, "bid_entries", 0),
        ),
    ],
)
def test_malformed_envelope_raises_an_envelope_error(data: bytes) -> None:
    with pytest.raises(EnvelopeError, match=f"^{len(data)} bytes are not an envelope: "):
        Decoder().decode([data])


@pytest.mark.parametrize("data", [b"", pb.NormalizedEvent(exchange="x").SerializeToString()])
def test_envelope_without_payload_raises_an_envelope_error(data: bytes) -> None:
    with pytest.raises(EnvelopeError, match="has no payload"):
        Decoder().decode([data])


def test_payload_of_a_newer_producer_is_named() -> None:
    # Field 40, length-delimited, three bytes.
    data = pb.NormalizedEvent(exchange="bitmex").SerializeToString() + b"\xc2\x02\x03abc"
    with pytest.raises(UnknownPayloadError, match="field 40"):
        Decoder().decode([data])


def test_each_envelope_has_its_own_outcome() -> None:
    good = encode(trade())
    first, second, third = Decoder().decode_each([good, b"\x08", good])
    assert first == third == trade()
    assert isinstance(second, EnvelopeError)


def test_fields_may_come_in_any_order_and_split() -> None:
    data = encode(trade())
    event = parse_event(data)
    canonical = event.SerializeToString(deterministic=True)
    assert Decoder().decode([data, canonical]) == [trade(), trade()]


def test_meta_can_be_appended_to_encoded_bytes() -> None:
    suffix = pb.NormalizedEvent(meta={"delivery_id": "p-1-7"}).SerializeToString()
    data = encode(trade()) + suffix
    assert parse_event(data).meta["delivery_id"] == "p-1-7"
    assert Decoder().decode([data]) == [trade()]
