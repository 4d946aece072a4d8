"""Envelope bytes to Arrow columns: the header at ingest, the payload when Silver is made.

Both work on whole columns and never fail: a row that cannot be read says so and keeps its place.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.lake.arrow import Values, arrow
from tardis_machine.lake.arrow import kernels as pc
from tardis_machine.lake.bronze.views import CASES, header_view, payload_view, rewrite
from tardis_machine.lake.spark.schemas import arrow_field
from tardis_machine.lake.tables import SILVER_BY_CASE, TABLES, Table
from tardis_machine.lake.tables.bronze import HEADER_COLUMNS, UNKNOWN, UNREADABLE

HISTORY = "history"
ORIGINS = ("", "realtime", "replay", "archive")
MALFORMED = "malformed payload"

TIME = pa.timestamp("us", "UTC")
# Years 1 to 9999: what Spark, DuckDB and the documents of everybody else can show.
MIN_TIME = pa.scalar(-62_135_596_800_000_000, pa.int64()).cast(TIME)
MAX_TIME = pa.scalar(253_402_300_799_999_999, pa.int64()).cast(TIME)
EPOCH_DAY = arrow.scalar(0, pa.int32()).cast(pa.date32())

_CASE_NAMES = pa.array([*(case.name for case in CASES), UNKNOWN, UNREADABLE])
_ORIGIN_NAMES = pa.array(ORIGINS)
_EVENTS = TABLES["bronze.events"]


def bronze_columns(envelopes: Values, bus_times: Values | None = None) -> dict[str, Values]:
    """Return day, payload case and header columns for envelopes as they came from a bus."""
    envelopes = envelopes.cast(pa.binary())
    batch, is_bad = header_view().read(envelopes)
    if _has_two_payloads(batch):
        single = arrow.array(map(rewrite, envelopes.to_pylist()), pa.binary())
        batch, is_bad = header_view().read(single)
    columns = {"payload_case": _payload_cases(batch, is_bad), **_header_columns(batch)}
    columns["date"] = _days(columns["local_ts"], bus_times)
    return {name: columns[name] for name in _EVENTS.column_names if name in columns}


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
    return _CASE_NAMES.take(index)


def _header_columns(batch: pa.RecordBatch) -> dict[str, Values]:
    origin = batch.column("origin")
    source = batch.column("source")
    columns: dict[str, Values] = {
        "exchange": batch.column("exchange"),
        "symbol": batch.column("symbol"),
        "name": _peeked(batch, "name", pa.string()).fill_null(""),
        "event_ts": _sane_times(_peeked(batch, "timestamp", TIME)),
        "local_ts": _sane_times(batch.column("local_ts")),
        "ordinal": batch.column("ordinal"),
        "capture": _captures(origin, source),
        "producer": source,
        "origin": _names_of(origin, _ORIGIN_NAMES),
        "ingest_ts": _sane_times(batch.column("ingest_ts")),
        "time_digits": batch.column("time_digits"),
    }
    return {column.name: columns[column.name] for column in HEADER_COLUMNS}


def _peeked(batch: pa.RecordBatch, field: str, type_: pa.DataType) -> Values:
    """Return a field of whichever payload each row has."""
    found = arrow.nulls(len(batch), type_)
    for case in CASES:
        column: Values = batch.column(case.name)
        if column.null_count < len(batch) and column.type.get_field_index(field) >= 0:
            value = column.field(field)
            found = pc.if_else(column.is_valid(), value, found) if column.null_count else value
    return found


def _captures(origin: Values, source: Values) -> Values:
    is_live = pc.equal(origin, pb.ORIGIN_REALTIME)
    if not pc.any(is_live).as_py():
        return pa.repeat(pa.scalar(HISTORY), len(source))
    return pc.if_else(is_live, pc.binary_join_element_wise("live:", source, ""), HISTORY)


def _names_of(numbers: Values, names: Values, other: int = 0) -> Values:
    """Return the name of each enumeration number; one of a newer schema counts as `other`."""
    is_known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
    return names.take(pc.if_else(is_known, numbers, pa.scalar(other, pa.int32())))


def _sane_times(times: Values) -> Values:
    is_sane = pc.and_(pc.greater_equal(times, MIN_TIME), pc.less_equal(times, MAX_TIME))
    return times if pc.all(is_sane).as_py() is True else pc.if_else(is_sane, times, None)


def _days(local_times: Values, bus_times: Values | None) -> Values:
    times = local_times if bus_times is None else pc.coalesce(local_times, bus_times)
    return times.cast(pa.date32()).fill_null(EPOCH_DAY)


def payload_columns(case: str, envelopes: Values) -> tuple[dict[str, Values], Values]:
    """Return the Silver columns that the payloads of one case fill, and each row's problem."""
    batch, is_bad = payload_view(case).read(envelopes)
    payload = batch.column(case)
    is_bad = pc.or_(is_bad, payload.is_null())
    problems = pc.if_else(is_bad, MALFORMED, pa.scalar(None, pa.string()))
    fields = {field.name: _field(payload, field.name) for field in payload.type}
    return _silver_columns(SILVER_BY_CASE[case], fields, len(batch)), problems


def _field(payload: Values, name: str) -> Values:
    return pc.struct_field(payload, name)


def _silver_columns(table: Table, fields: dict[str, Any], rows: int) -> dict[str, Values]:
    columns: dict[str, Values] = {}
    for column in table.columns:
        if (source := _SOURCES.get(column.name)) and source[0] in fields:
            value = source[1](fields[source[0]])
        elif column.name in fields and column.name != "name":
            value = fields[column.name]
        elif column.name in _FROM_BRONZE:
            continue
        else:
            value = arrow.nulls(rows)
        columns[column.name] = value.cast(arrow_field(column).type)
    return columns


_FROM_BRONZE = frozenset(_EVENTS.column_names)


def _first(levels: Values) -> Values:
    """Return the first entry of each list, null where there is none."""
    has_level = pc.greater(pc.list_value_length(levels), 0)
    found = arrow.nulls(len(levels), pa.float64())
    if pc.any(has_level).as_py():
        best = pc.list_element(levels.filter(has_level), 0)
        found = pc.replace_with_mask(found, has_level.fill_null(False), best)
    return found


def _enumerated(*names: str, other: int = 0) -> Callable[[Values], Values]:
    texts = pa.array(names)
    return lambda numbers: _names_of(numbers, texts, other)


def _same(values: Values) -> Values:
    return values


def _values(lists: Values) -> Values:
    return pc.struct_field(lists, "values")


# Silver columns that are not a payload field of the same name: the field, and what to make of it.
_SOURCES: dict[str, tuple[str, Callable[[Any], Values]]] = {
    "side": ("side", _enumerated("unknown", "buy", "sell", "unknown")),
    "kind": ("kind", _enumerated("", "time", "volume", "tick")),
    "option_type": ("option_type", _enumerated("", "call", "put")),
    "symbols": ("symbols", _values),
    "funding_ts": ("funding_timestamp", _sane_times),
    "expiration_ts": ("expiration_date", _sane_times),
    "open_ts": ("open_timestamp", _sane_times),
    "close_ts": ("close_timestamp", _sane_times),
    "bid_price": ("bid_prices", _first),
    "bid_amount": ("bid_amounts", _first),
    "ask_price": ("ask_prices", _first),
    "ask_amount": ("ask_amounts", _first),
}
