"""Bronze to Silver: every event once, whatever comes twice, late or broken."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.bronze.series import Origin
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.lake.query.quality import check_lake
from tardis_machine.lake.tables import SILVER_BY_CASE
from tardis_machine.lake.tables.silver import EVENT_TABLES
from tardis_machine.model.ndjson import NormalizedRecord
from tests.lake.events import disconnect, encoded, of_every_case, trade
from tests.lake.lakes import Lake

pytestmark = pytest.mark.spark


def trades(*times: float) -> list[NormalizedRecord]:
    return [trade(at, 100 + at) for at in times]


def test_every_case_becomes_rows_of_its_table(full_lake: Lake) -> None:
    expected = Counter(
        (SILVER_BY_CASE[case].name, record.local_timestamp)
        for case, records in of_every_case().items()
        for record in records
    )
    local_time = F.date_format("local_ts", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")
    found = Counter(
        (table.name, str(time))
        for table in EVENT_TABLES
        for (time,) in full_lake.values(table.name, local_time)
    )
    assert found == expected
    assert full_lake.values("silver.quarantine", "reason") == []


def test_what_comes_again_or_late_counts_once(lake: Lake) -> None:
    twins = [trade(3, 500), trade(3, 500)]
    lake.deliver(encoded([*trades(1, 2, 9), *twins]) + encoded(trades(2, 9)))
    first = [(101.0, 0), (102.0, 0), (109.0, 0), (500.0, 0), (500.0, 1)]
    assert lake.values("silver.trades", "price", "ordinal") == first
    lake.deliver(encoded([*trades(1, 2, 9), *twins]))
    assert lake.values("silver.trades", "price", "ordinal") == first
    lake.deliver(encoded(trades(0, 2, 5, 9, 11)))
    more = [(100.0, 0), (105.0, 0), (111.0, 0)]
    assert lake.values("silver.trades", "price", "ordinal") == sorted(first + more)


def test_large_batch_is_split_at_the_known_times(lake: Lake) -> None:
    lake.deliver(encoded(trades(4, 5, 6)))
    lake.append([*encoded(trades(1, 5, 6, 7, 9)), event_without_times()])
    lake.refine(split_rows=1)
    prices = [price for (price,) in lake.values("silver.trades", "price")]
    assert prices == [101.0, 104.0, 105.0, 106.0, 107.0, 109.0]
    assert lake.values("silver.quarantine", "position") == [("5",)]


def test_live_captures_of_one_market_are_both_kept(lake: Lake) -> None:
    copies = [
        encoded(trades(1), origin=origin, source=source)
        for origin, source in (
            (Origin.REALTIME, "a"),
            (Origin.REALTIME, "b"),
            (Origin.REPLAY, "c"),
            (Origin.REPLAY, "c"),
        )
    ]
    lake.deliver([envelope for copy in copies for envelope in copy])
    assert lake.values("silver.trades", "capture", "producer", "origin") == [
        ("history", "c", "replay"),
        ("live:a", "a", "realtime"),
        ("live:b", "b", "realtime"),
    ]


def event_of_a_newer_producer() -> bytes:
    """Return a trade whose payload and envelope have fields that nobody knows yet."""
    event = pb.NormalizedEvent.FromString(encoded(trades(1))[0])
    payload = event.trade.SerializeToString() + b"\xfa\x06\x03new"
    event.ClearField("trade")
    tagged = b"\xa2\x01" + bytes([len(payload)]) + payload
    return event.SerializeToString() + tagged + b"\xf8\x07\x01"


def event_without_times() -> bytes:
    event = pb.NormalizedEvent(source="p", exchange="bitmex", symbol="XBTUSD", origin=2)
    event.trade.price = 1.0
    return event.SerializeToString()


def test_bad_events_are_kept_with_the_reason_and_once(lake: Lake) -> None:
    unknown_case = b"\x12\x06bitmex" + b"\x92\x03\x02\x08\x01"
    bad = [
        trade(1, float("nan")),
        trade(2, exchange=""),
        trade(3, symbol=""),
        trade(4, local_timestamp="2031-01-01T00:00:00.000000Z"),
    ]
    cut = encoded(trades(2))[0][:-3]
    unread = [None, b"", b"\xff\xff", unknown_case, cut]
    lake.deliver([*unread, event_without_times(), *encoded(bad), event_of_a_newer_producer()])
    refused = [
        ("empty record", "1"),
        ("local time in the future", "9"),
        ("malformed envelope", "2"),
        ("malformed envelope", "4"),
        ("no exchange", "7"),
        ("no local time, or out of range", "5"),
        ("no payload that this version knows", "3"),
        ("no symbol", "8"),
        ("null record", "0"),
        ("price or amount is not a number", "6"),
    ]
    assert lake.values("silver.quarantine", "reason", "position") == refused
    assert lake.values("silver.trades", "price") == [(101.0,)]
    assert len(lake.values("bronze.events", "position")) == 11
    # The whole of Bronze once more, as after the loss of the checkpoint.
    checkpoint = Path(lake.root, "_checkpoints", "refine")
    checkpoint.rename(checkpoint.with_name("lost"))
    lake.append(encoded(trades(3)))
    lake.refine(max_batch_bytes=1)
    assert lake.values("silver.quarantine", "reason", "position") == refused
    assert lake.values("silver.trades", "price") == [(101.0,), (103.0,)]


def test_batch_that_failed_between_its_writes_is_repeated(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    not_a_number = [trade(at, float("nan")) for at in (1, 2, 3)]
    lake.append(encoded(not_a_number))
    quarantine = Path(lake.root, "silver", "quarantine")
    quarantine.parent.mkdir(parents=True)
    # The events are refused and nothing is written to their table, then this write fails.
    quarantine.touch()
    with pytest.raises(StreamingQueryException):
        lake.refine()
    # The failure is raised; its trace of kilobytes is not printed as well.
    assert not caplog.records
    quarantine.unlink()
    lake.refine()
    assert lake.values("silver.quarantine", "position") == [("0",), ("1",), ("2",)]
    assert lake.values("silver.trades", "price") == []
    # A stream of another bus has the same name and the same positions.
    lake.append([None, *encoded([trade(9, float("nan"))])], is_next=False)
    lake.refine()
    assert len(lake.values("silver.quarantine", "position")) == 5
    assert not [finding for finding in check_lake(lake.root) if finding.is_error]


def test_touched_minutes_are_noted(lake: Lake) -> None:
    lake.deliver(encoded([trade(1), trade(61), trade(62), disconnect(130)]))
    minute = F.date_format("minute", "HH:mm")
    assert lake.values("silver.touched_minutes", "payload_case", "symbol", minute) == [
        ("disconnect", "", "12:02"),
        ("trade", "XBTUSD", "12:00"),
        ("trade", "XBTUSD", "12:01"),
    ]
