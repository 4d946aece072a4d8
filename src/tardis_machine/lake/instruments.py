"""`silver.instruments` as the data API describes the symbols that a lake has events of."""

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from tardis_machine.exchanges.instruments.metadata import InstrumentInfo, periods_of
from tardis_machine.lake.jobs import LOG_FILE, failures_of_spark
from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.lake.silver.instruments import Period, replace_instruments
from tardis_machine.lake.spark.session import open_session
from tardis_machine.lake.store.changes import DELETE, INSERT, UPDATE
from tardis_machine.lake.store.store import Store

_SYMBOLS = "select distinct exchange, symbol from silver.touched_minutes where symbol <> ''"


@dataclass(frozen=True)
class Symbols:
    """Symbols that a lake has events of."""

    by_exchange: dict[str, set[str]]

    @classmethod
    def of(cls, root: str) -> "Symbols":
        """Read them from a lake, without Spark."""
        found: dict[str, set[str]] = {}
        for line in Query(root, _SYMBOLS).lines("json"):
            row = json.loads(line)
            found.setdefault(row["exchange"], set()).add(row["symbol"])
        return cls(found)

    def periods(self, exchange: str, infos: Sequence[InstrumentInfo]) -> Iterator[Period]:
        """Yield what is known of the symbols of an exchange; ids may be written in lower case."""
        by_id = {info.id.upper(): info for info in infos}
        for symbol in sorted(self.by_exchange.get(exchange, ())):
            info = by_id.get(symbol.upper())
            if info is not None:
                for since_us, instrument in periods_of(exchange, info):
                    yield exchange, symbol, since_us, instrument


async def collect_periods(
    symbols: Symbols,
    exchanges: Sequence[str],
    fetch: Callable[[str], Awaitable[Sequence[InstrumentInfo]]],
    say: Callable[[str], None],
) -> list[Period]:
    """Ask for the instruments of exchanges, one after another."""
    found: list[Period] = []
    for exchange in exchanges:
        rows = list(symbols.periods(exchange, await fetch(exchange)))
        known = len({symbol for _, symbol, _, _ in rows})
        total = len(symbols.by_exchange.get(exchange, ()))
        say(f"{exchange}: the data API knows {known:,} of {total:,} symbols")
        found += rows
    return found


def write_periods(lake: LakeSettings, spark: SparkSettings, periods: Sequence[Period]) -> str:
    """Start Spark and write what differs; return a line that says how much that is."""
    log_path = spark.cache_dir / LOG_FILE
    with open_session(spark, profile="quick", log_path=log_path) as session, failures_of_spark():
        counts = replace_instruments(Store(session, lake.root, lake.catalog), periods)
    changes = ((INSERT, "inserted"), (UPDATE, "updated"), (DELETE, "deleted"))
    made = ", ".join(f"{counts.get(change, 0):,} {name}" for change, name in changes)
    return f"silver.instruments: {made}"
