import pytest

from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import identity, parse_event
from tardis_machine.bronze.series import Origin
from tardis_machine.model.control import Disconnect
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.time import us_text
from tests.unit.bronze.records import LOCAL_US, snapshot, trade

DISCONNECT = Disconnect(exchange="bitmex", local_timestamp=us_text(LOCAL_US))


@pytest.mark.parametrize(
    ("record", "origin", "text"),
    [
        (trade(), Origin.REPLAY, "bitmex:XBTUSD:trade:1709251200123456:0"),
        (trade(), Origin.ARCHIVE, "bitmex:XBTUSD:trade:1709251200123456:0"),
        (trade(), Origin.REALTIME, "bitmex:XBTUSD:trade:1709251200123456:0:producer-1"),
        (
            snapshot(name="quote_10s"),
            Origin.REPLAY,
            "bitmex:XBTUSD:quote:quote_10s:1709251200123456:0",
        ),
        (
            snapshot(name="book_snapshot_5_grouped10_1s", grouping=10),
            Origin.REPLAY,
            "bitmex:XBTUSD:grouped_book_snapshot:book_snapshot_5_grouped10_1s:1709251200123456:0",
        ),
        (DISCONNECT, Origin.REPLAY, "bitmex::disconnect:1709251200123456:0"),
    ],
)
def test_identity_names_the_event(record: NormalizedRecord, origin: Origin, text: str) -> None:
    (envelope,) = Encoder("producer-1", origin, {"request_id": "r"}).encode([record], LOCAL_US)
    assert envelope.identity == text
    assert identity(parse_event(envelope.data)) == text


def test_second_event_at_the_same_time_has_another_identity() -> None:
    first, second = Encoder("p", Origin.REPLAY).encode([trade(), trade()], LOCAL_US)
    assert (first.identity[-2:], second.identity[-2:]) == (":0", ":1")


def test_second_replay_has_the_same_identities() -> None:
    records = [trade(), trade(), snapshot()]
    first = Encoder("one", Origin.REPLAY, {"request_id": "1"}).encode(records, LOCAL_US)
    second = Encoder("two", Origin.ARCHIVE, {"request_id": "2"}).encode(records, LOCAL_US + 99)
    assert [event.identity for event in first] == [event.identity for event in second]


def test_envelope_without_payload_has_no_identity() -> None:
    with pytest.raises(EnvelopeError, match="no payload"):
        identity(parse_event(b""))


def test_bytes_that_are_no_message_raise() -> None:
    with pytest.raises(EnvelopeError, match="1 bytes are not a NormalizedEvent"):
        parse_event(b"\x08")
