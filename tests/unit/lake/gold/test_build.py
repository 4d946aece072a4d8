"""The list of Gold tables against their declarations."""

from tardis_machine.lake.gold.build import GOLD
from tardis_machine.lake.tables import SILVER_BY_CASE
from tardis_machine.lake.tables.gold import GOLD_TABLES

BUILT = [gold for chain in GOLD for gold in chain]


def test_every_declared_gold_table_is_built_once() -> None:
    assert sorted(gold.table.name for gold in BUILT) == sorted(table.name for table in GOLD_TABLES)


def test_gold_tables_depend_on_known_payload_cases() -> None:
    assert {case for gold in BUILT for case in gold.cases} <= SILVER_BY_CASE.keys()
    assert all(gold.cases for gold in BUILT)
