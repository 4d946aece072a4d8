"""Decode the payloads of envelopes into Arrow columns, for Silver.

Works on whole columns and never fails: a payload that cannot be decoded has a problem in its row.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tardis_machine.lake.arrow import Values, arrow, arrow_field
from tardis_machine.lake.arrow import kernels as pc
from tardis_machine.lake.bronze.envelopes import payload_view
from tardis_machine.lake.bronze.headers import names_array, names_of, valid_times
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.bronze import EVENTS
from tardis_machine.lake.tables.silver import PROVENANCE

MALFORMED = "malformed payload"


def payload_columns(case: str, envelopes: Values) -> tuple[dict[str, Values], Values]:
    """Return the Silver columns that payloads of one case fill, and the problem of each row."""
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
        elif column.name in _FROM_HEADER:
            continue
        else:
            value = arrow.nulls(rows)
        columns[column.name] = value.cast(arrow_field(column).type)
    return columns


_FROM_HEADER = frozenset((*EVENTS.column_names, *PROVENANCE))


def _first(levels: Values) -> Values:
    """Return the first entry of each list, null where there is none."""
    has_level = pc.greater(pc.list_value_length(levels), 0)
    found = arrow.nulls(len(levels), pa.float64())
    if pc.any(has_level).as_py():
        best = pc.list_element(levels.filter(has_level), 0)
        found = pc.replace_with_mask(found, has_level.fill_null(False), best)
    return found


def _enumerated(*names: str, other: int = 0) -> Callable[[Values], Values]:
    return lambda numbers: names_of(numbers, names_array(*names), other)


def _values(lists: Values) -> Values:
    return pc.struct_field(lists, "values")


# Silver columns that differ from the payload field: the field, and how to convert it.
_SOURCES: dict[str, tuple[str, Callable[[Any], Values]]] = {
    "side": ("side", _enumerated("unknown", "buy", "sell", "unknown")),
    "kind": ("kind", _enumerated("", "time", "volume", "tick")),
    "option_type": ("option_type", _enumerated("", "call", "put")),
    "symbols": ("symbols", _values),
    "funding_ts": ("funding_timestamp", valid_times),
    "expiration_ts": ("expiration_date", valid_times),
    "open_ts": ("open_timestamp", valid_times),
    "close_ts": ("close_timestamp", valid_times),
    "bid_price": ("bid_prices", _first),
    "bid_amount": ("bid_amounts", _first),
    "ask_price": ("ask_prices", _first),
    "ask_amount": ("ask_amounts", _first),
}
