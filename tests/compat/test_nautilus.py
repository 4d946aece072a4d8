"""nautilus_trader's own client of the Tardis machine, unchanged but for its address.

It asks for whole days over `/ws-replay-normalized`. What it makes of the messages is compared with
the HTTP response to the same options.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest

from tardis_machine.model.time import MINUTE_US, parse_us
from tardis_machine.sources.simulator import SimulatorSettings, simulate_minutes
from tests.compat.conftest import Client
from tests.servers.data_api import DataApiStub, Fault, minute_text

if sys.version_info >= (3, 14):
    pytest.skip("nautilus_trader has no wheel for this Python yet", allow_module_level=True)

from nautilus_trader.core import nautilus_pyo3
from nautilus_trader.model.data import (
    Bar,
    OrderBookDelta,
    OrderBookDeltas,
    QuoteTick,
    TradeTick,
    capsule_to_data,
)

DAY = {"from": "2024-03-01", "to": "2024-03-02"}
BITMEX = {"exchange": "bitmex", "symbols": ["xbtusd"], **DAY}
BINANCE = {"exchange": "binance-futures", "symbols": ["btcusdt"], **DAY}
DIGITS = 3
"""Most digits of a simulated price or amount. Nautilus cuts behind the last digit of an instrument
instead of rounding, so its instruments get more."""

INSTRUMENTS = {
    "bitmex": ("XBTUSD.BITMEX", "XBTUSD", DIGITS + 3, DIGITS + 3),
    "binance-futures": ("BTCUSDT-PERP.BINANCE", "BTCUSDT", DIGITS + 3, DIGITS + 3),
}
MINUTES = 3
TOO_SLOW = 'tardis_machine_server_slow_clients_total{route="/ws-replay-normalized"}'
ACTIVE = 'tardis_machine_server_active_streams{route="/ws-replay-normalized"}'
SIDES = {"buy": "BUYER", "sell": "SELLER", "unknown": "NO_AGGRESSOR"}

Row = tuple[Any, ...]
"""A record in the form both sides are brought to."""


@pytest.fixture(scope="module")
def day() -> dict[tuple[str, str], bytes]:
    """A day whose first minutes are busy and whose others are silent."""
    settings = SimulatorSettings(minutes=MINUTES, seed=11, with_gaps=True)
    start_us = parse_us("2024-03-01T00:00:00.000Z")
    return {
        (exchange, minute_text(start_us + number * MINUTE_US)): minute.content
        for exchange in INSTRUMENTS
        for number, minute in enumerate(simulate_minutes(settings, exchange))
    }


@pytest.fixture
async def simulated(data_api: DataApiStub, day: dict[tuple[str, str], bytes]) -> None:
    data_api.slices = day
    data_api.suggested_minutes = 10


def instruments() -> list[nautilus_pyo3.TardisInstrumentMiniInfo]:
    return [
        nautilus_pyo3.TardisInstrumentMiniInfo(
            nautilus_pyo3.InstrumentId.from_str(id_), symbol, exchange, *precisions
        )
        for exchange, (id_, symbol, *precisions) in INSTRUMENTS.items()
    ]


def options(*entries: dict[str, Any]) -> list[nautilus_pyo3.ReplayNormalizedRequestOptions]:
    text = json.dumps(entries).encode()
    return nautilus_pyo3.ReplayNormalizedRequestOptions.from_json_array(text)


async def received(client: Client, *entries: dict[str, Any]) -> list[Any]:
    """Let nautilus replay these entries; return its own objects."""
    got: list[Any] = []

    def keep(data: Any) -> None:
        is_capsule = type(data).__name__ == "PyCapsule"
        got.append(capsule_to_data(data) if is_capsule else data)

    machine = nautilus_pyo3.TardisMachineClient(base_url=client.machine.ws_url)
    async with asyncio.timeout(240):
        await machine.replay(instruments(), options(*entries), keep)
    return got


async def expected(client: Client, *entries: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the HTTP response to the same options, without disconnects, which nautilus drops."""
    lines = await client.lines("/replay-normalized", list(entries))
    records = [json.loads(line) for line in lines]
    return [record for record in records if record["type"] != "disconnect"]


def ns(text: str) -> int:
    return parse_us(text) * 1000


def number(value: Any) -> float:
    """Return a number of either side; those of nautilus are exact as text only."""
    return round(float(str(value)), DIGITS)


def level_rows(levels: list[Any], side: str) -> list[Row]:
    return [(side, number(level["price"]), number(level["amount"])) for level in levels]


def trade_row(record: dict[str, Any]) -> Row:
    fields = (
        number(record["price"]),
        number(record["amount"]),
        SIDES[record["side"]],
        record["id"],
    )
    return ("trade", ns(record["localTimestamp"]), *fields)


def book_row(record: dict[str, Any]) -> Row:
    levels = level_rows(record["bids"], "BUY") + level_rows(record["asks"], "SELL")
    return ("book", ns(record["localTimestamp"]), levels)


def quote_row(record: dict[str, Any]) -> Row:
    bid, ask = record["bids"][0], record["asks"][0]
    prices = (bid["price"], ask["price"], bid["amount"], ask["amount"])
    return ("quote", ns(record["localTimestamp"]), *map(number, prices))


def bar_row(record: dict[str, Any]) -> Row:
    values = tuple(record[name] for name in ("open", "high", "low", "close", "volume"))
    return ("bar", ns(record["timestamp"]), *map(number, values))


def nautilus_row(data: Any) -> Row:
    """Bring an object of nautilus to the form of ours."""
    if isinstance(data, TradeTick):
        fields = (number(data.price), number(data.size), data.aggressor_side.name)
        return ("trade", data.ts_init, *fields, data.trade_id.value)
    if isinstance(data, QuoteTick):
        values = (data.bid_price, data.ask_price, data.bid_size, data.ask_size)
        return ("quote", data.ts_init, *map(number, values))
    if isinstance(data, Bar):
        values = (data.open, data.high, data.low, data.close, data.volume)
        return ("bar", data.ts_event, *map(number, values))
    assert isinstance(data, OrderBookDeltas), type(data)
    return ("book", data.ts_init, [delta_row(delta) for delta in data.deltas])


def delta_row(delta: OrderBookDelta) -> Row:
    return (delta.order.side.name, number(delta.order.price), number(delta.order.size))


ROWS: dict[str, Callable[[dict[str, Any]], Row]] = {
    "trade": trade_row,
    "book_change": book_row,
    "quote": quote_row,
    "quote_10s": quote_row,
    "book_snapshot_5_1s": book_row,
    "trade_bar_10s": bar_row,
    "trade_bar_1m": bar_row,
    "trade_bar_50ticks": bar_row,
}


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("entry", [BITMEX, BINANCE], ids=itemgetter("exchange"))
async def test_every_record_arrives_as_http_tells_it(client: Client, entry: dict[str, Any]) -> None:
    for data_type, row in ROWS.items():
        asked = {**entry, "dataTypes": [data_type], "withDisconnectMessages": True}
        got = [nautilus_row(data) for data in await received(client, asked)]
        told = [row(record) for record in await expected(client, asked)]
        assert len(told) > 1, data_type
        assert got == told, data_type


@pytest.mark.usefixtures("simulated")
async def test_two_exchanges_arrive_merged_by_local_time(client: Client) -> None:
    asked = (
        {**BITMEX, "dataTypes": ["trade", "book_change"]},
        {**BINANCE, "dataTypes": ["trade", "book_change"], "withDisconnectMessages": True},
    )
    rows = {"trade": trade_row, "book_change": book_row}
    told = [rows[record["type"]](record) for record in await expected(client, *asked)]
    got = [nautilus_row(data) for data in await received(client, *asked)]
    assert got == told
    assert [row[1] for row in got] == sorted(row[1] for row in got)


@pytest.mark.usefixtures("simulated")
async def test_bars_can_be_asked_for_at_once(client: Client) -> None:
    asked = {**BITMEX, "dataTypes": ["trade_bar_10s"]}
    machine = nautilus_pyo3.TardisMachineClient(base_url=client.machine.ws_url)
    bars = await machine.replay_bars(instruments(), options(asked))
    told = [bar_row(record) for record in await expected(client, asked)]
    assert [(bar.ts_event, number(bar.close)) for bar in bars] == [(row[1], row[5]) for row in told]


@pytest.mark.usefixtures("simulated")
async def test_tickers_arrive_as_changes_of_the_funding_rate(client: Client) -> None:
    asked = {**BITMEX, "dataTypes": ["derivative_ticker"]}
    rates = [record["fundingRate"] for record in await expected(client, asked)]
    changes = [rate for before, rate in zip([None, *rates], rates, strict=False) if rate != before]
    got = await received(client, asked)
    assert [float(update.rate) for update in got] == changes


async def test_refusal_of_the_data_api_ends_the_replay(
    client: Client, data_api: DataApiStub
) -> None:
    data_api.faults = [Fault(times=None, status=401, body="no")]
    assert await received(client, {**BITMEX, "dataTypes": ["trade"]}) == []


class TestImpatientServer:
    """A server that waits for readers only a moment."""

    @pytest.fixture
    def server_options(self) -> dict[str, float]:
        return {"slow_client_seconds": 1.0}

    @pytest.mark.usefixtures("simulated")
    async def test_client_that_stops_reading_is_dropped(self, client: Client) -> None:
        machine = nautilus_pyo3.TardisMachineClient(base_url=client.machine.ws_url)
        got: list[Any] = []

        def close_at_the_first(data: Any) -> None:
            got.append(data)
            # It stops reading now, but keeps its connection.
            machine.close()

        # Far more than sockets hold, and than it reads before it stops on a busy machine.
        depths = [f"book_snapshot_{depth}_0ms" for depth in range(20, 30)]
        asked = {**BITMEX, "dataTypes": depths}
        async with asyncio.timeout(240):
            await machine.replay(instruments(), options(asked), close_at_the_first)
            while TOO_SLOW + " 1.0" not in (await client.get("/metrics"))[2]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert ACTIVE + " 0.0" in (await client.get("/metrics"))[2]
        assert 0 < len(got) < 1000
