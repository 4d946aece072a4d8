"""Envelope bytes to columns: equal to the record, whatever the record is."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tardis_machine.bronze.cases import PayloadCase, case_of
from tardis_machine.bronze.content import Content
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import identity, parse_event
from tardis_machine.bronze.series import Origin
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.lake.bronze.headers import bronze_columns
from tardis_machine.lake.silver.payloads import MALFORMED, payload_columns
from tardis_machine.lake.tables import SILVER_BY_CASE
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.time import us_text
from tests.lake.events import encoded, trade
from tests.lake.oracle import moment, payload_of
from tests.property.test_bronze import records
from tests.unit.bronze.records import LOCAL_US, book_change
from tests.unit.bronze.records import trade as recorded_trade

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def column(envelopes: list[bytes | None]) -> pa.Array:
    return pa.array(envelopes, pa.binary())


def test_record_that_may_lack_something_has_a_capture_of_its_own() -> None:
    content = Content(
        state_from_us=1_709_251_100_000_000,
        partial_us={PayloadCase.TRADE: (0, LOCAL_US + 1)},
    )
    encoder = Encoder("producer", Origin.REPLAY, contents={"bitmex": content})
    made = [recorded_trade(local_timestamp=us_text(LOCAL_US + later)) for later in (0, 1)]
    events = encoder.encode([*made, book_change()], LOCAL_US)
    rows = bronze_columns(column([event.data for event in events]))
    captures = ["partial:2024-02-29T23:58:20.000000Z", "history", "history"]
    assert rows["capture"].to_pylist() == captures
    assert events[0].series.identity_end == f":{captures[0]}"


def test_own_recordings_have_captures_of_their_own() -> None:
    lacking = Content(
        state_from_us=1_709_251_100_000_000,
        partial_us={PayloadCase.TRADE: (0, LOCAL_US + 1)},
        recorder="box-7",
    )
    contents = [{"bitmex": Content(recorder="box-7")}, {"bitmex": lacking}, {}]
    events = [
        Encoder("producer", Origin.REPLAY, contents=each).encode([recorded_trade()], LOCAL_US)[0]
        for each in contents
    ]
    rows = bronze_columns(column([event.data for event in events]))
    captures = [
        "recorded:box-7",
        "partial:2024-02-29T23:58:20.000000Z:recorded:box-7",
        "history",
    ]
    assert rows["capture"].to_pylist() == captures
    assert [event.series.identity_end for event in events] == [
        *(f":{capture}" for capture in captures[:2]),
        "",
    ]
    assert [identity(parse_event(event.data)) for event in events] == [
        event.identity for event in events
    ]


@patient
@given(st.lists(records, min_size=1, max_size=8), st.sampled_from(list(Origin)))
def test_columns_equal_the_record(made: list[NormalizedRecord], origin: Origin) -> None:
    events = Encoder("producer", origin).encode(made, 1_709_251_200_000_000)
    headers = bronze_columns(column([event.data for event in events]))
    rows = pa.table(headers).to_pylist()
    for record, event, row in zip(made, events, rows, strict=True):
        case = case_of(record)
        capture = "live:producer" if origin is Origin.REALTIME else "history"
        assert (row["payload_case"], row["capture"]) == (case, capture)
        assert (row["exchange"], row["symbol"]) == (record.exchange, getattr(record, "symbol", ""))
        assert row["local_ts"] == moment(record.local_timestamp)
        assert row["date"] == moment(record.local_timestamp).date()
        columns, problems = payload_columns(case, column([event.data]))
        found = {name: values.to_pylist()[0] for name, values in columns.items()}
        assert problems.to_pylist() == [None]
        expected = payload_of(record, SILVER_BY_CASE[case])
        assert {name: found[name] for name in expected} == expected


def test_one_bad_row_harms_no_other() -> None:
    good = encoded([trade(1, 10), trade(2, 20)])
    rows = [good[0], None, b"", good[1][:-4], b"\xff\xff\xff", good[1]]
    cases = bronze_columns(column(rows))["payload_case"].to_pylist()
    assert cases == ["trade", "unreadable", "unreadable", "unreadable", "unreadable", "trade"]
    columns, problems = payload_columns("trade", column(rows))
    bad = [MALFORMED] * 4
    assert problems.to_pylist() == [None, *bad, None]
    assert [columns["price"].to_pylist()[place] for place in (0, 5)] == [10.0, 20.0]


def test_last_of_two_payloads_counts() -> None:
    event = pb.NormalizedEvent.FromString(encoded([trade(1)])[0])
    second = pb.NormalizedEvent()
    second.disconnect.symbols.values.append("XBTUSD")
    both = event.SerializeToString() + second.SerializeToString()
    assert bronze_columns(column([both]))["payload_case"].to_pylist() == ["disconnect"]


def test_times_that_nobody_can_show_are_absent() -> None:
    event = pb.NormalizedEvent.FromString(encoded([trade(1)])[0])
    event.local_ts.seconds = 300_000_000_000
    columns = bronze_columns(column([event.SerializeToString()]))
    assert columns["local_ts"].to_pylist() == [None]
    assert [str(day) for day in columns["date"].to_pylist()] == ["1970-01-01"]


@pytest.mark.parametrize("number", [4, 99])
def test_enumerations_of_a_newer_producer_are_unknown(number: int) -> None:
    event = pb.NormalizedEvent.FromString(encoded([trade(1)])[0])
    event.trade.side = number
    event.origin = number
    envelope = column([event.SerializeToString()])
    assert payload_columns("trade", envelope)[0]["side"].to_pylist() == ["unknown"]
    assert bronze_columns(envelope)["origin"].to_pylist() == [""]
