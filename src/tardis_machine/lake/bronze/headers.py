"""Decode the headers of envelopes into Arrow columns, for Bronze.

Works on whole columns and never fails: a record that cannot be decoded gets the payload case
`unreadable` and stays in its row.

Constants of Arrow are made when they are first used: pyarrow imports pandas for the first one, and
the processes in which Spark plans batches load this module too.
"""

from functools import cache

import pyarrow as pa

from tardis_machine.bronze.content import FIRST_VERSION
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.lake.arrow import Values, arrow
from tardis_machine.lake.arrow import kernels as pc
from tardis_machine.lake.bronze.envelopes import CASES, header_view, rewrite
from tardis_machine.lake.tables.bronze import EVENTS, UNKNOWN, UNREADABLE

HISTORY = "history"
PARTIAL = "partial:"
"""Begins the capture of records that may lack what came before their replay began."""
RECORDED = "recorded:"
"""Begins the capture of replays of own recordings."""
ORIGINS = ("", "realtime", "replay", "archive")

TIME = pa.timestamp("us", "UTC")
# Years 1 to 9999: the range that Spark and DuckDB can represent.
MIN_TIME_US = -62_135_596_800_000_000
MAX_TIME_US = 253_402_300_799_999_999


def bronze_columns(envelopes: Values, bus_times: Values | None = None) -> dict[str, Values]:
    """Return date, payload case and header columns of envelopes read from a bus."""
    columns = header_columns(envelopes, bus_times)
    return {name: columns[name] for name in EVENTS.column_names if name in columns}


def header_columns(envelopes: Values, bus_times: Values | None = None) -> dict[str, Values]:
    """Return what envelopes say beside their payload: the columns of Bronze, and others."""
    envelopes = envelopes.cast(pa.binary())
    batch, is_bad = header_view().read(envelopes)
    if _has_two_payloads(batch):
        single = arrow.array(map(rewrite, envelopes.to_pylist()), pa.binary())
        batch, is_bad = header_view().read(single)
    columns = {"payload_case": _payload_cases(batch, is_bad), **_header_columns(batch)}
    columns["date"] = _dates(columns["local_ts"], bus_times)
    return columns


def _has_two_payloads(batch: pa.RecordBatch) -> bool:
    present = sum(len(batch) - batch.column(case.name).null_count for case in CASES)
    return present > len(batch)


def _payload_cases(batch: pa.RecordBatch, is_bad: Values) -> Values:
    index = pa.repeat(pa.scalar(len(CASES), pa.int32()), len(batch))
    for position, case in enumerate(CASES):
        column = batch.column(case.name)
        if column.null_count < len(batch):
            index = pc.if_else(column.is_valid(), pa.scalar(position, pa.int32()), index)
    index = pc.if_else(is_bad, pa.scalar(len(CASES) + 1, pa.int32()), index)
    return names_array(*(case.name for case in CASES), UNKNOWN, UNREADABLE).take(index)


def _header_columns(batch: pa.RecordBatch) -> dict[str, Values]:
    origin = batch.column("origin")
    source = batch.column("source")
    version = batch.column("mapper_version")
    return {
        "exchange": batch.column("exchange"),
        "symbol": batch.column("symbol"),
        "name": _payload_field(batch, "name", pa.string()).fill_null(""),
        "event_ts": valid_times(_payload_field(batch, "timestamp", TIME)),
        "local_ts": valid_times(batch.column("local_ts")),
        "ordinal": batch.column("ordinal"),
        "capture": _captures(batch),
        "producer": source,
        "origin": names_of(origin, names_array(*ORIGINS)),
        "ingest_ts": valid_times(batch.column("ingest_ts")),
        "time_digits": batch.column("time_digits"),
        # An absent number is read as 0.
        "mapper_version": pc.max_element_wise(version, pa.scalar(FIRST_VERSION, version.type)),
    }


def _payload_field(batch: pa.RecordBatch, field: str, type_: pa.DataType) -> Values:
    """Return one field of the payload of each row, whichever case it has."""
    found = arrow.nulls(len(batch), type_)
    for case in CASES:
        column: Values = batch.column(case.name)
        if column.null_count < len(batch) and column.type.get_field_index(field) >= 0:
            value = column.field(field)
            found = pc.if_else(column.is_valid(), value, found) if column.null_count else value
    return found


def _captures(batch: pa.RecordBatch) -> Values:
    captures = pa.repeat(pa.scalar(HISTORY), len(batch))
    is_live = pc.equal(batch.column("origin"), pb.ORIGIN_REALTIME)
    if pc.any(is_live).as_py():
        live = pc.binary_join_element_wise("live:", batch.column("source"), "")
        captures = pc.if_else(is_live, live, captures)
    recorder, state_from = batch.column("recorder"), batch.column("state_from")
    is_recorded = pc.not_equal(recorder, "").fill_null(False)
    is_any_recorded = pc.any(is_recorded).as_py()
    if is_any_recorded:
        recorded = pc.binary_join_element_wise(RECORDED, recorder, "")
        captures = pc.if_else(is_recorded, recorded, captures)
    if state_from.null_count < len(state_from):
        began = pc.strftime(state_from, format="%Y-%m-%dT%H:%M:%SZ")
        partial = pc.binary_join_element_wise(PARTIAL, began, "")
        if is_any_recorded:
            own = pc.binary_join_element_wise(partial, captures, ":")
            partial = pc.if_else(is_recorded, own, partial)
        captures = pc.if_else(state_from.is_valid(), partial, captures)
    return captures


@cache
def names_array(*names: str) -> Values:
    """Return names as an array to take from."""
    return pa.array(names)


@cache
def _time(time_us: int) -> Values:
    return pa.scalar(time_us, pa.int64()).cast(TIME)


def names_of(numbers: Values, names: Values, other: int = 0) -> Values:
    """Return the name of each enum number; a number of a newer schema gets the name `other`."""
    is_known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
    return names.take(pc.if_else(is_known, numbers, pa.scalar(other, pa.int32())))


def valid_times(times: Values) -> Values:
    """Return the times, null where they are outside of years 1 to 9999."""
    is_valid = pc.and_(
        pc.greater_equal(times, _time(MIN_TIME_US)), pc.less_equal(times, _time(MAX_TIME_US))
    )
    return times if pc.all(is_valid).as_py() is True else pc.if_else(is_valid, times, None)


def _dates(local_times: Values, bus_times: Values | None) -> Values:
    times = local_times if bus_times is None else pc.coalesce(local_times, bus_times)
    epoch_day = arrow.scalar(0, pa.int32()).cast(pa.date32())
    return times.cast(pa.date32()).fill_null(epoch_day)
