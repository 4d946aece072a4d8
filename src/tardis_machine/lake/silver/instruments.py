"""`silver.instruments`: a row for every symbol that events have, by the rules of its exchange."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from tardis_machine.exchanges.instruments.registry import instrument_of
from tardis_machine.lake.arrow import Values, arrow_schema
from tardis_machine.lake.store.changes import changed_rows
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.tables.instruments import INSTRUMENTS

ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


class Instruments:
    """Keeps the table complete; it is looked at when a symbol comes for the first time in a run."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: set[tuple[str, str]] = set()

    def note(self, groups: Values) -> None:
        """Write the instruments of new symbols.

        Args:
            groups: An Arrow table with exchange and symbol of each event, some of them repeated.
        """
        found = groups.group_by(["exchange", "symbol"]).aggregate([])
        series = set(zip(found["exchange"].to_pylist(), found["symbol"].to_pylist(), strict=True))
        rows = instrument_rows(series - self._known)
        if len(rows):
            new = self._store.spark.createDataFrame(rows)
            old = self._store.read(INSTRUMENTS)
            # A newer version may have a better rule.
            changes = changed_rows(new, old, INSTRUMENTS, deletes=False)
            self._store.replace(changes, INSTRUMENTS)
        self._known |= series


def instrument_rows(series: set[tuple[str, str]]) -> pa.Table:
    """Return rows of `silver.instruments` for exchanges and symbols that a rule knows."""
    known = ((exchange, symbol, instrument_of(exchange, symbol)) for exchange, symbol in series)
    rows = [
        {
            "exchange": exchange,
            "symbol": symbol,
            "valid_from": ALWAYS,
            "base": found.base,
            "quote": found.quote,
            "kind": str(found.kind),
            "is_inverse": found.is_inverse,
            "contract_size": found.contract_size,
            "multiplier": found.multiplier,
            "expiry_ts": None if found.expiry_us is None else _time(found.expiry_us),
        }
        for exchange, symbol, found in known
        if found is not None
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(INSTRUMENTS))


def _time(time_us: int) -> datetime:
    return ALWAYS + timedelta(microseconds=time_us)
