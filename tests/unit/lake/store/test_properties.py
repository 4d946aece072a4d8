"""Statistics that Delta writes are those that are declared."""

from tardis_machine.lake.store.store import properties
from tardis_machine.lake.tables.bronze import EVENTS
from tardis_machine.lake.tables.silver import TRADES

STATS = "delta.dataSkippingStatsColumns"


def test_bronze_has_statistics_of_one_column() -> None:
    assert properties(EVENTS)[STATS] == "local_ts"
    assert properties(TRADES)[STATS] == "exchange,symbol,local_ts,event_ts"
