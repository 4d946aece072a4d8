"""Checks that compute windows of Gold from Silver once more, by other means than the job.

Coverage is counted for every minute; of the other tables some windows are sampled, others in each
table and the same ones at every call.
"""

from collections.abc import Iterator

from tardis_machine.lake.query.checks import Check, Severity
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.silver import CONTROL_EVENTS, EVENT_TABLES

SAMPLED_WINDOWS = 1000
_ADVICE = "Run: lake build. If it is found again, run: lake rebuild"
_IS_PREFERRED = (
    "join gold.coverage c on c.is_preferred and c.exchange = t.exchange and c.symbol = t.symbol "
    "and c.capture = t.capture and c.minute = date_trunc('minute', t.event_ts)"
)


def gold_differences(grace_seconds: float) -> Iterator[Check]:
    """Yield the checks.

    Args:
        grace_seconds: Ignore events encoded in the last N seconds; Gold may not have them yet.
    """
    for table in EVENT_TABLES:
        if table is not CONTROL_EVENTS:
            yield _coverage(table, grace_seconds)
    yield _sampled(
        "gold.bars",
        "open_ts",
        "silver.trades",
        "trade",
        "count(*) as trades, max(price) as high, min(price) as low, sum(amount) as volume",
        ("trades", "high", "low", "volume"),
        "where interval = '1m'",
        grace_seconds,
    )
    yield _sampled(
        "gold.liquidations_1m",
        "minute",
        "silver.liquidations",
        "liquidation",
        "count_if(side = 'buy') as buys, count_if(side = 'sell') as sells, "
        "coalesce(sum(amount) filter (side = 'buy'), 0) as buy_volume, "
        "coalesce(sum(amount) filter (side = 'sell'), 0) as sell_volume",
        ("buys", "sells", "buy_volume", "sell_volume"),
        "",
        grace_seconds,
    )
    yield _quotes(grace_seconds)


def _coverage(table: Table, grace_seconds: float) -> Check:
    data_type = "t.name" if table.is_computed else f"'{table.cases[0]}'"
    keys = "exchange, symbol, data_type, capture, minute"
    return Check(
        table.name,
        "coverage counts its events",
        Severity.ERROR,
        f"gold.coverage counts other events than the table has. {_ADVICE}",
        f"select s.*, c.events as covered from (select t.exchange, t.symbol, "  # noqa: S608
        f"{data_type} as data_type, t.capture, date_trunc('minute', t.event_ts) as minute, "
        f"count(*) as events from {table.name} t group by all "
        f"having max(t.ingest_ts) <= {_grace(grace_seconds)}) s "
        f"left join gold.coverage c using ({keys}) where c.events is distinct from s.events",
    )


def _sampled(
    gold: str,
    start: str,
    silver: str,
    data_type: str,
    computed: str,
    values: tuple[str, ...],
    where: str,
    grace_seconds: float,
) -> Check:
    differs = " or ".join(f"not {_is_near(f'g.{name}', f'e.{name}')}" for name in values)
    return Check(
        gold,
        "windows are those of Silver",
        Severity.ERROR,
        f"Sampled windows differ from what {silver} gives. {_ADVICE}",
        f"with sampled as (select * from {gold} {where} "  # noqa: S608
        f"order by hash(exchange, symbol, {start}) limit {SAMPLED_WINDOWS}), "
        f"expected as (select t.exchange, t.symbol, date_trunc('minute', t.event_ts) as {start}, "
        f"{computed}, max(t.ingest_ts) as ingest_ts from {silver} t {_IS_PREFERRED} "
        f"and c.data_type = '{data_type}' group by 1, 2, 3) "
        f"select g.* from sampled g left join expected e using (exchange, symbol, {start}) "
        f"where coalesce(e.ingest_ts <= {_grace(grace_seconds)}, true) and ({differs})",
    )


def _quotes(grace_seconds: float) -> Check:
    """Compare seconds whose source is the book tickers of the exchange."""
    same = " and ".join(_is_near(f"g.{name}", f"e.{name}") for name in ("bid_price", "ask_price"))
    order = "(t.event_ts, t.local_ts, t.ordinal)"
    return Check(
        "gold.quotes_1s",
        "seconds are those of Silver",
        Severity.ERROR,
        f"Sampled seconds differ from what silver.book_tickers gives. {_ADVICE}",
        "with sampled as (select * from gold.quotes_1s where basis = 'book_tickers' "  # noqa: S608
        f"order by hash(exchange, symbol, second) limit {SAMPLED_WINDOWS}), "
        "expected as (select t.exchange, t.symbol, date_trunc('second', t.event_ts) as second, "
        f"arg_max(t.bid_price, {order}) as bid_price, arg_max(t.ask_price, {order}) as ask_price, "
        f"max(t.ingest_ts) as ingest_ts from silver.book_tickers t {_IS_PREFERRED} "
        "and c.data_type = 'book_ticker' group by 1, 2, 3) "
        "select g.* from sampled g left join expected e using (exchange, symbol, second) "
        f"where coalesce(e.ingest_ts <= {_grace(grace_seconds)}, true) and not ({same})",
    )


def _is_near(one: str, other: str) -> str:
    """Return a condition that holds for equal numbers, and for sums in another order."""
    return (
        f"({one} is not distinct from {other} or "
        f"coalesce(abs({one} - {other}) <= 1e-9 * abs({other}), false))"
    )


def _grace(seconds: float) -> str:
    return f"now() - interval '{seconds} seconds'"
