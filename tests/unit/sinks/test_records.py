"""Events to log records and back."""

from collections.abc import Sequence

import pytest

from tardis_machine.buses.files.log import parse_records
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.records import RecordPacker, RecordReader
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
        )
        for event in read
    ]


@pytest.mark.parametrize("names_series", [True, False])
def test_events_come_back_as_they_were(*, names_series: bool) -> None:
    packer = RecordPacker(Headers({}), names_series=names_series)
    reader = RecordReader(names_series=names_series)
    # Two requests for the same symbols; the second reading knows all series.
    written = [*events(20, *SYMBOLS), *events(20, *SYMBOLS, first=20)]
    packed = list(parse_records(packer.pack(written)))
    first, second = reader.events(packed), reader.events(packed)
    assert facts(first) == facts(second) == facts(written)
    assert {id(event.series) for event in second} <= {id(event.series) for event in first}


def test_series_with_equal_headers_stay_apart() -> None:
    packer, reader = RecordPacker(Headers({}), names_series=True), RecordReader(names_series=True)
    written = events(4, *SYMBOLS)
    packed = list(parse_records(packer.pack(written)))
    for _ in range(2):
        read = reader.events(packed)
        assert [event.series.symbol for event in read] == ["XBTUSD", "ETHUSD", "XBTUSD", "ETHUSD"]


def test_header_that_only_looks_like_the_name_of_a_series_is_not_trusted() -> None:
    packer, reader = RecordPacker(Headers({"series": "mine"})), RecordReader()
    written = events(4, *SYMBOLS)
    packed = list(parse_records(packer.pack(written)))
    kept = reader.events(packed)
    assert facts(reader.events(packed)) == facts(kept) == facts(written)
