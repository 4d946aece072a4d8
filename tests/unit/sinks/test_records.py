"""Events to log records and back."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from tardis_machine.bronze.cases import AnyCase, NewerCase, PayloadCase
from tardis_machine.bronze.content import Content
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.series import Origin, Series
from tardis_machine.buses.files.log import LogRecord, parse_records
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.time import us_text
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.events import address, events_of_records
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.records import RecordPacker, RecordReader
from tardis_machine.sinks.storage.in_flight import ChunkInFlight
from tests.contract.test_memory_sink import MemorySettings
from tests.unit.bronze.records import LOCAL_US, trade
from tests.unit.sinks.delivery import events

SYMBOLS = ("XBTUSD", "ETHUSD")


def facts(read: Sequence[Event]) -> list[tuple[object, ...]]:
    """Return everything a sink may ask an event for."""
    return [
        (
            event.route,
            event.data,
            event.event_id,
            event.delivery_id,
            event.series.case,
            event.series.exchange,
            event.series.symbol,
            event.series.source,
            event.series.origin,
            event.series.meta,
            event.series.label,
            event.series.mapper_version,
            event.series.state_from_us,
            event.series.recorder,
        )
        for event in read
    ]


def read_all(reader: RecordReader, packed: Sequence[LogRecord]) -> list[Event]:
    return [reader.event(record) for record in packed]


@pytest.mark.parametrize("names_series", [True, False])
def test_events_come_back_as_they_were(*, names_series: bool) -> None:
    packer = RecordPacker(Headers({}), names_series=names_series)
    reader = RecordReader(names_series=names_series)
    # Two requests for the same symbols; the second reading knows all series.
    written = [*events(20, *SYMBOLS), *events(20, *SYMBOLS, first=20)]
    packed = list(parse_records(packer.pack(written)))
    first, second = read_all(reader, packed), read_all(reader, packed)
    assert facts(first) == facts(second) == facts(written)
    assert {id(event.series) for event in second} <= {id(event.series) for event in first}


@pytest.mark.parametrize("names_series", [True, False])
def test_events_that_lack_what_came_before_come_back_as_such(*, names_series: bool) -> None:
    content = Content(
        mapper_version=3,
        state_from_us=LOCAL_US - 1,
        partial_us={PayloadCase.TRADE: (0, LOCAL_US + 1)},
        recorder="box-7",
    )
    encoder = Encoder("p", Origin.REPLAY, contents={"bitmex": content})
    records = [trade(), trade(local_timestamp=us_text(LOCAL_US + 1))]
    router = MemorySettings().router()
    envelopes = encoder.encode(records, LOCAL_US)
    ids = [envelope.identity for envelope in envelopes]
    written = address(envelopes, router, ids, ["1", "2"], 0.0)
    packer = RecordPacker(Headers({}), names_series=names_series)
    packed = list(parse_records(packer.pack(written)))
    read = read_all(RecordReader(names_series=names_series), packed)
    assert facts(read) == facts(written)
    assert [event.series.state_from_us for event in read] == [LOCAL_US - 1, None]
    assert [event.series.identity_end for event in read] == [
        f":partial:{us_text(LOCAL_US - 1)}:recorded:box-7",
        ":recorded:box-7",
    ]


@pytest.mark.parametrize("names_series", [True, False])
def test_envelope_of_a_newer_version_is_passed_on_as_it_is(*, names_series: bool) -> None:
    (written,) = events(1, "XBTUSD")
    # Field 40 holds a payload that only a newer version knows.
    header = pb.NormalizedEvent(source="p", exchange="bitmex", symbol="XBTUSD")
    data = header.SerializeToString() + b"\xc2\x02\x03new"
    case = NewerCase("auction", "auction")
    series = Series(case, "bitmex", "XBTUSD", "", "p", Origin.REPLAY, {})
    newer = msgspec.structs.replace(written, series=series, data=data)
    packer = RecordPacker(Headers({}), names_series=names_series)
    reader = RecordReader(names_series=names_series)
    packed = packer.pack([newer, written])
    (read, _) = read_all(reader, list(parse_records(packed)))
    assert facts([read]) == facts([newer])
    place, left_out = ChunkInFlight(None, 0, 1, 1, 2), Counter[AnyCase]()
    router = MemorySettings(include_payloads=("bookChange",)).router()
    (kept,) = events_of_records(reader, packed, place, 0.0, router, left_out)
    assert (kept.data, kept.route) == (data, written.route)
    assert left_out == {PayloadCase.TRADE: 1}


def test_series_with_equal_headers_stay_apart() -> None:
    packer, reader = RecordPacker(Headers({}), names_series=True), RecordReader(names_series=True)
    written = events(4, *SYMBOLS)
    packed = list(parse_records(packer.pack(written)))
    for _ in range(2):
        read = read_all(reader, packed)
        assert [event.series.symbol for event in read] == ["XBTUSD", "ETHUSD", "XBTUSD", "ETHUSD"]


def test_header_that_only_looks_like_the_name_of_a_series_is_not_trusted() -> None:
    packer, reader = RecordPacker(Headers({"series": "mine"})), RecordReader()
    written = events(4, *SYMBOLS)
    packed = list(parse_records(packer.pack(written)))
    kept = read_all(reader, packed)
    assert facts(read_all(reader, packed)) == facts(kept) == facts(written)
