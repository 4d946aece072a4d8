"""Silver and Gold as DuckDB and the records alone give them, from the NDJSON of the HTTP API.

Nothing of the lake is used for it but its declarations, and `silver.instruments` for what contracts
are worth.
"""

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import duckdb
from deltalake import DeltaTable

from tardis_machine.app.machine import TardisMachine
from tardis_machine.bronze.cases import snapshot_case
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.lake.tables import SILVER_BY_CASE, Table, table_named
from tardis_machine.lake.tables.silver import EVENT_TABLES
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines
from tests.lake.oracle import moment, payload_of
from tests.servers.ports import free_ports

EXCHANGES = ("bitmex", "binance-futures", "deribit", "coinbase")
COMPUTED = ("quote_1s", "book_snapshot_3_5s", "trade_bar_10ticks", "trade_bar_1m")
SECONDS = 3600
Row = dict[str, Any]


def data_types(exchange: str) -> list[str]:
    return [*REGISTRY[exchange].data_types, *COMPUTED]


async def ask(cache: Path, folder: Path, start: str, end: str) -> list[Path]:
    """Replay all exchanges over HTTP, and return a file of lines for each."""
    found = []
    async with (
        TardisMachine(port=free_ports(), offline=True, cache_dir=cache) as machine,
        aiohttp.ClientSession() as session,
    ):
        for exchange in EXCHANGES:
            options = {
                "exchange": exchange,
                "from": start,
                "to": end,
                "dataTypes": data_types(exchange),
                "withDisconnectMessages": True,
            }
            url = f"{machine.http_url}/replay-normalized"
            async with session.get(url, params={"options": json.dumps(options)}) as response:
                found.append(folder / f"{exchange}.ndjson")
                found[-1].write_bytes(await response.read())
    return found


def publish(cache: Path, bus: Path, *parts: tuple[str, str], warm_up: bool = True) -> None:
    """Publish replays of all exchanges by a job, in the order of the parts."""
    orders = "".join(
        f'[[replay]]\nexchange = "{exchange}"\ndata_types = {json.dumps(data_types(exchange))}\n'
        f'from = "{start}"\nto = "{end}"\nwarm_up = {json.dumps(warm_up)}\n'
        for start, end in parts
        for exchange in EXCHANGES
    )
    job = bus.parent / "job.toml"
    job.write_text(orders)
    words = ["publish", str(job), "--cache-dir", str(cache), "--offline", "--files-dir", str(bus)]
    words += ["--event-bus-spool-dir", str(bus.parent / "spool")]
    done = subprocess.run(
        [sys.executable, "-m", "tardis_machine", *words],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def check_silver(root: str, files: Sequence[Path]) -> int:
    """Compare the complete events of every table with the records; return how many there are."""
    records = [decode_lines(file.read_bytes()) for file in files]
    expected: dict[str, dict[tuple[Any, ...], Row]] = {table.name: {} for table in EVENT_TABLES}
    for stream in records:
        for table, key, record in _identified(stream):
            assert expected[table.name].setdefault(key, payload_of(record, table))
    for table in EVENT_TABLES:
        found = _history(root, table)
        assert found.keys() == expected[table.name].keys(), table.name
        for key, row in expected[table.name].items():
            assert {name: found[key][name] for name in row} == row, (table.name, key)
    return sum(map(len, expected.values()))


def _identified(
    records: Sequence[NormalizedRecord],
) -> Iterator[tuple[Table, tuple[Any, ...], Any]]:
    """Yield the table and the key of each record."""
    seen: Counter[tuple[Any, ...]] = Counter()
    for record in records:
        name = getattr(record, "name", "")
        case = record.type
        if case == "book_snapshot":
            case = snapshot_case(name, is_grouped="grouped" in name).value
        symbol = getattr(record, "symbol", "")
        key = case, record.exchange, symbol, name, moment(record.local_timestamp)
        yield SILVER_BY_CASE[case], (*key, seen[key]), record
        seen[key] += 1


def _history(root: str, table: Table) -> dict[tuple[Any, ...], Row]:
    """Return the rows of complete replays by their keys."""
    path = Path(root, table.path)
    if not path.exists():
        return {}
    rows = DeltaTable(path).to_pyarrow_table(filters=[("capture", "=", "history")]).to_pylist()
    names = ("exchange", "symbol", "name", "local_ts", "ordinal")
    found = {
        (
            row.get("payload_case", table.cases[0]),
            *(
                row.get(name) or ("" if name in ("symbol", "name") else row.get(name))
                for name in names
            ),
        ): row
        for row in rows
    }
    assert len(found) == len(rows), table.name
    return found


def check_gold(root: str, files: Sequence[Path]) -> int:
    """Compare every Gold table with what DuckDB computes; return how many rows there are."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    _load(connection, files, root)
    total = 0
    for name, sql in GOLD.items():
        table = table_named(name)
        # The partition is a function of the rest.
        keys = [key for key in table.key if key != "date"]
        expected = _rows(connection.execute(sql), keys)
        lake = connection.execute(f"select * from lake_{name.partition('.')[2]}")
        found = _rows(lake, keys)
        if name == "gold.coverage":
            found = {key: row for key, row in found.items() if row["capture"] == "history"}
        assert found.keys() == expected.keys(), name
        for key, row in expected.items():
            for column, value in row.items():
                assert _is_same(found[key][column], value), (name, key, column)
        total += len(expected)
    return total


def _rows(result: Any, keys: Sequence[str]) -> dict[tuple[Any, ...], Row]:
    names = [column[0] for column in result.description]
    rows = [dict(zip(names, values, strict=True)) for values in result.fetchall()]
    found = {tuple(row[key] for key in keys): row for row in rows}
    assert len(found) == len(rows)
    return found


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)


_NUMBERS = (
    *("price", "amount", "interval", "bidPrice", "bidAmount", "askPrice", "askAmount"),
    *("fundingRate", "predictedFundingRate", "markPrice", "indexPrice", "openInterest"),
)
_TEXTS = ("type", "exchange", "symbol", "name", "side", "timestamp", "localTimestamp")
_LEVELS = 'STRUCT("price" DOUBLE, "amount" DOUBLE)[]'


def _load(connection: duckdb.DuckDBPyConnection, files: Sequence[Path], root: str) -> None:
    columns = dict.fromkeys(_NUMBERS, "DOUBLE") | dict.fromkeys(
        (*_TEXTS, "fundingTimestamp"), "VARCHAR"
    )
    columns |= {"bids": _LEVELS, "asks": _LEVELS}
    listed = ", ".join(f"'{file}'" for file in files)
    connection.execute(
        "create table r as select *, timestamp::timestamptz as ts, "
        "localTimestamp::timestamptz as local, row_number() over () as n "
        f"from read_json([{listed}], format = 'newline_delimited', columns = {columns}, "
        "maximum_object_size = 16777216)"
    )
    for name in (*GOLD, "silver.instruments"):
        path = Path(root, table_named(name).path)
        rows = DeltaTable(path).to_pyarrow_table()
        connection.register("rows", rows)
        connection.execute(f"create table lake_{name.partition('.')[2]} as from rows")
        connection.unregister("rows")
    for sql in VIEWS:
        connection.execute(sql)


VIEWS = (
    """
    create view executions as select r.*, case
        when i.is_inverse is null then price * amount
        when i.is_inverse then amount * contract_size
        else price * amount * contract_size end as worth
    from r left join lake_instruments i using (exchange, symbol)
    where type in ('trade', 'liquidation')
    """,
    """
    create view bars as
    select exchange, symbol, len as interval, time_bucket(width::interval, ts) as open_ts,
        arg_min(price, (ts, local, n)) as open, max(price) as high, min(price) as low,
        arg_max(price, (ts, local, n)) as close, sum(amount) as volume,
        coalesce(sum(amount) filter (side = 'buy'), 0) as buy_volume,
        coalesce(sum(amount) filter (side = 'sell'), 0) as sell_volume,
        sum(worth) as notional, sum(price * amount) / sum(amount) as vwap, count(*) as trades
    from executions, (values ('1s', '1 second'), ('1m', '1 minute'), ('5m', '5 minutes'),
        ('1h', '1 hour'), ('1d', '1 day')) lengths(len, width)
    where type = 'trade' group by all
    """,
    """
    create view quotes as
    select exchange, symbol, ts, local, n, 'book_tickers' as basis, 1 as rank, 0 as resolution,
        type as name, bidPrice as bid_price, bidAmount as bid_amount, askPrice as ask_price,
        askAmount as ask_amount, ts as stood
    from r where type = 'book_ticker'
    union all
    select exchange, symbol, ts, local, n,
        if(name like 'quote%', 'quotes', 'book_snapshots'), if(name like 'quote%', 0, 2),
        interval, name, bids[1].price, bids[1].amount, asks[1].price, asks[1].amount,
        if(interval > 0, ts - interval 1 microsecond, ts)
    from r where type = 'book_snapshot'
    """,
)

GOLD = {
    "gold.bars": "select * from bars",
    "gold.quotes_1s": """
        with lasts as (
            select exchange, symbol, date_trunc('second', stood) as second, basis, rank,
                resolution, name, count(*) as updates,
                arg_max({b: bid_price, ba: bid_amount, a: ask_price, aa: ask_amount},
                    (stood, local, n)) as top
            from quotes group by all)
        select exchange, symbol, second, basis, top.b as bid_price, top.ba as bid_amount,
            top.a as ask_price, top.aa as ask_amount, top.a - top.b as spread,
            (top.a + top.b) / 2 as mid,
            (top.b * top.aa + top.a * top.ba) / (top.ba + top.aa) as microprice, updates
        from lasts qualify row_number() over (
            partition by exchange, symbol, second order by resolution, rank, name) = 1
    """,
    "gold.funding": """
        select exchange, symbol, fundingTimestamp::timestamptz as funding_ts,
            unnest(arg_max({funding_rate: fundingRate,
                predicted_funding_rate: predictedFundingRate, mark_price: markPrice,
                index_price: indexPrice, open_interest: openInterest, as_of_ts: ts,
                as_of_local_ts: local}, (ts, local, n)))
        from r where type = 'derivative_ticker' and fundingTimestamp is not null
            and fundingRate is not null
        group by 1, 2, 3
    """,
    "gold.liquidations_1m": """
        select exchange, symbol, date_trunc('minute', ts) as minute,
            count_if(side = 'buy') as buys, count_if(side = 'sell') as sells,
            coalesce(sum(amount) filter (side = 'buy'), 0) as buy_volume,
            coalesce(sum(amount) filter (side = 'sell'), 0) as sell_volume
        from executions where type = 'liquidation' group by all
    """,
    "gold.cross_exchange_1m": """
        with placed as (
            select concat_ws(' ', base || '/' || quote, kind, strftime(expiry_ts, '%Y-%m-%d'))
                as market, open_ts as minute, close / multiplier as price
            from bars join lake_instruments using (exchange, symbol)
            where interval = '1m' and kind <> 'option')
        select market, minute, count(*) as venues, avg(price) as mean_price,
            min(price) as min_price, max(price) as max_price,
            (max(price) - min(price)) / avg(price) * 10000 as dispersion_bps
        from placed group by all having count(*) > 1
    """,
    "gold.coverage": """
        with lost as (
            select exchange, date_trunc('minute', local) as minute, count(*) as disconnects
            from r where type = 'disconnect' group by all),
        counted as (
            select exchange, symbol, coalesce(name, type) as data_type,
                date_trunc('minute', ts) as minute, count(*) as events,
                60 - count(distinct date_trunc('second', ts)) as silent_seconds,
                min(ts) as first_ts, max(ts) as last_ts
            from r where type <> 'disconnect' group by all)
        select counted.*, 'history' as capture, coalesce(disconnects, 0) as disconnects,
            true as is_preferred
        from counted left join lost using (exchange, minute)
    """,
}
"""Every Gold table by its name, as a statement over the records."""
