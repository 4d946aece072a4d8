"""`lakehouse.silver.v1` says what the Silver tables are."""

import pytest

from tardis_machine.generated.lakehouse.silver.v1 import rows_pb2 as pb
from tardis_machine.lake.tables import TABLES, Table
from tardis_machine.lake.tables.silver import CONTROL_EVENTS, OPTION_SUMMARIES, TRADES

SILVER = [table for table in TABLES.values() if table.layer == "silver"]
MESSAGES = list(pb.DESCRIPTOR.message_types_by_name)


def test_every_table_has_a_message_with_its_columns_in_order() -> None:
    fields = {
        tuple((field.name, field.number) for field in message.fields)
        for message in pb.DESCRIPTOR.message_types_by_name.values()
    }
    columns = {
        tuple((name, number) for number, name in enumerate(table.column_names, 1))
        for table in SILVER
    }
    assert fields == columns
    assert len(MESSAGES) == len(SILVER)


@pytest.mark.parametrize(
    ("table", "message"),
    [(TRADES, "Trade"), (OPTION_SUMMARIES, "OptionSummary"), (CONTROL_EVENTS, "ControlEvent")],
)
def test_message_has_the_name_of_one_row(table: Table, message: str) -> None:
    fields = pb.DESCRIPTOR.message_types_by_name[message].fields
    assert tuple(field.name for field in fields) == table.column_names


def test_absent_values_differ_from_zero() -> None:
    row = pb.Trade.FromString(pb.Trade(exchange="bitmex", price=0.0).SerializeToString())
    assert row.HasField("price")
    assert not row.HasField("amount")
    assert not row.HasField("event_ts")
