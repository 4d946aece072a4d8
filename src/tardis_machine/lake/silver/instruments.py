"""`silver.instruments`: symbols that come by the rules of exchanges, or as the data API says.

Rows of the data API stay until it says something else; rules do not replace them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pyarrow as pa

from tardis_machine.exchanges.instruments.registry import instrument_of
from tardis_machine.exchanges.instruments.spec import Instrument
from tardis_machine.lake.arrow import Values, arrow_schema, kernels
from tardis_machine.lake.store.few_changes import changed_few
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.tables.instruments import INSTRUMENTS

ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
RULE, DATA_API = "rule", "data-api"
_SERIES = ["exchange", "symbol"]

Period: TypeAlias = tuple[str, str, int, Instrument]
"""Exchange, symbol, since when in microseconds, and what it is."""


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
        found = groups.group_by(_SERIES).aggregate([])
        series = set(zip(found["exchange"].to_pylist(), found["symbol"].to_pylist(), strict=True))
        rows = instrument_rows(ruled(series - self._known))
        if len(rows):
            old = self._store.collect(INSTRUMENTS)
            told = old.filter(kernels.equal(old["source"], DATA_API)).select(_SERIES)
            new = rows.join(told, _SERIES, join_type="left anti")
            # A newer version may have a better rule.
            changes = changed_few(new, old, INSTRUMENTS, deletes=False)
            self._store.replace_arrow(changes, INSTRUMENTS)
        self._known |= series


def replace_instruments(store: Store, periods: Iterable[Period]) -> dict[str, int]:
    """Write what the data API says of some symbols; return how many rows of each change there are.

    All rows of these symbols that differ are replaced, those of rules too.
    """
    new = instrument_rows(periods, DATA_API)
    named = new.select(_SERIES)
    old = store.collect(INSTRUMENTS).join(named, _SERIES, join_type="left semi")
    changes = changed_few(new, old, INSTRUMENTS, deletes=True)
    return store.replace_arrow(changes, INSTRUMENTS)


def ruled(series: Iterable[tuple[str, str]]) -> Iterable[Period]:
    """Yield the instruments of exchanges and symbols that a rule knows."""
    for exchange, symbol in series:
        if (found := instrument_of(exchange, symbol)) is not None:
            yield exchange, symbol, 0, found


def instrument_rows(periods: Iterable[Period], source: str = RULE) -> pa.Table:
    """Return rows of `silver.instruments`."""
    rows = [
        {
            "exchange": exchange,
            "symbol": symbol,
            "valid_from": _time(since_us),
            "base": found.base,
            "quote": found.quote,
            "kind": str(found.kind),
            "is_inverse": found.is_inverse,
            "contract_size": found.contract_size,
            "multiplier": found.multiplier,
            "expiry_ts": None if found.expiry_us is None else _time(found.expiry_us),
            "source": source,
        }
        for exchange, symbol, since_us, found in periods
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(INSTRUMENTS))


def _time(time_us: int) -> datetime:
    return ALWAYS + timedelta(microseconds=time_us)
