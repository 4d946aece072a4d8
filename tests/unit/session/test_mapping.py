"""Recorded lines of one connection to records, and what a disconnect does."""

import pytest

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.model.control import Disconnect
from tardis_machine.model.errors import MappingError
from tardis_machine.model.records import BookChange, Record, Trade
from tardis_machine.model.time import parse_us
from tardis_machine.session.mapping import SegmentMapper
from tardis_machine.telemetry.metrics import Metrics
from tests.compat.recorded import book, recorded, trade

SNAPSHOT = book("00:00.100000", "partial", ("Buy", 100.0, 5))
LEVEL = {"symbol": "XBTUSD", "id": 1000, "side": "Buy", "size": 6}
UPDATE = recorded("00:02.000000", {"table": "orderBookL2", "action": "update", "data": [LEVEL]})
TRADE = trade("00:01.000000", 1.0)
GAP = b"\n"


def mapper(*, with_disconnects: bool = True, metrics: Metrics | None = None) -> SegmentMapper:
    return SegmentMapper(
        REGISTRY["bitmex"],
        ("trade", "book_change"),
        lambda: parse_us("2026-01-01T00:00:00.000Z"),
        (metrics or Metrics()).replay.of("bitmex"),
        with_disconnects=with_disconnects,
    )


def mapped(chunks: list[bytes], *, with_disconnects: bool = True) -> list[Record]:
    segment = mapper(with_disconnects=with_disconnects)
    records: list[Record] = []
    for chunk in chunks:
        segment.map_chunk(chunk, records.append)
    return records


def kinds(records: list[Record]) -> list[type[Record]]:
    return [type(record) for record in records]


def test_gap_before_the_first_line_says_nothing() -> None:
    assert kinds(mapped([GAP, GAP + GAP + TRADE])) == [Trade]


def test_repeated_gaps_are_one_disconnect_across_chunks() -> None:
    chunks = [TRADE + GAP, GAP, GAP + GAP + TRADE, GAP]
    assert kinds(mapped(chunks)) == [Trade, Disconnect, Trade, Disconnect]


def test_disconnect_has_the_time_of_the_last_line_before_it() -> None:
    unmapped = b'2024-03-01T00:00:05.1234567Z {"info":"x"}\n'
    records = mapped([TRADE + unmapped + GAP + TRADE])
    assert records[1] == Disconnect(
        exchange="bitmex", local_timestamp="2024-03-01T00:00:05.123456Z"
    )


def test_disconnect_is_silent_unless_asked_for() -> None:
    assert kinds(mapped([TRADE + GAP + TRADE], with_disconnects=False)) == [Trade, Trade]


@pytest.mark.parametrize("with_disconnects", [True, False])
def test_every_connection_starts_with_fresh_state(*, with_disconnects: bool) -> None:
    # BitMEX updates name levels by an id that only the snapshot of the connection explains.
    chunks = [SNAPSHOT + UPDATE + GAP, UPDATE + SNAPSHOT]
    records = mapped(chunks, with_disconnects=with_disconnects)
    books = [record for record in records if isinstance(record, BookChange)]
    assert [record.is_snapshot for record in books] == [True, False, True]


def test_state_lasts_across_chunks_of_one_connection() -> None:
    assert kinds(mapped([SNAPSHOT, UPDATE, TRADE])) == [BookChange, BookChange, Trade]


@pytest.mark.parametrize("line", [b"junk", b"\xff\xfe", b"{}", b"2024-03-01 {}"])
def test_first_line_without_a_time_is_a_clear_error(line: bytes) -> None:
    with pytest.raises(MappingError, match="Cannot map a message of bitmex"):
        mapped([line + b"\n"])


def test_records_before_a_bad_line_are_emitted() -> None:
    records: list[Record] = []
    with pytest.raises(MappingError):
        mapper().map_chunk(
            TRADE + GAP + TRADE + b"2024-03-01T00:00:09.0000000Z {\n", records.append
        )
    assert kinds(records) == [Trade, Disconnect, Trade]


@pytest.mark.parametrize("with_disconnects", [True, False])
def test_messages_disconnects_and_errors_are_counted(*, with_disconnects: bool) -> None:
    metrics = Metrics()
    segment = mapper(with_disconnects=with_disconnects, metrics=metrics)
    segment.map_chunk(GAP + TRADE + UPDATE + GAP + GAP + TRADE, lambda _: None)
    with pytest.raises(MappingError):
        segment.map_chunk(b"2024-03-01T00:00:09.0000000Z {\n", lambda _: None)
    assert [
        metrics.registry.get_sample_value(
            f"tardis_machine_replay_{name}_total", {"exchange": "bitmex"}
        )
        for name in ("messages", "disconnects", "mapping_errors")
    ] == [4, 1, 1]
