"""From an exchange on this machine to a bus: live feeds are published, each event once."""

import asyncio
import json
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tardis_machine.bronze.envelope import parse_event
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tests.integration.publishing.machine import (
    COMMAND,
    QUICK,
    SECONDS,
    Machine,
    published,
    records_of,
    wait_until,
)

EXCHANGE = ["--exchange", "binance-futures", "--symbols", "btcusdt"]


class LocalExchange:
    """`tardis-machine simulate --serve`, and where it is."""

    def __init__(self, process: "subprocess.Popen[str]", gateway: str) -> None:
        self.process = process
        self.gateway = gateway

    def truth(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.gateway}/truth/{path}") as response:
            return json.load(response)


@contextmanager
def local_exchange() -> Iterator[LocalExchange]:
    words = [*COMMAND, "simulate", "--serve", "0", "--seed", "7"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        gateway = next(line for line in process.stdout if line.startswith("Exchange gateway: "))
        try:
            yield LocalExchange(process, gateway.removeprefix("Exchange gateway: ").strip())
        finally:
            process.kill()


def flags(exchange: LocalExchange, folder: Path) -> list[str]:
    return [
        *("--exchange-gateway", exchange.gateway),
        *("--files-dir", str(folder / "bus")),
        *("--event-bus-spool-dir", str(folder / "spool")),
        *QUICK,
    ]


def cases(folder: Path) -> Counter[str]:
    if not (folder / "bus" / "bronze").exists():
        return Counter()
    return Counter(event.headers["payloadCase"] for event in published(folder / "bus"))


def test_stream_is_published_until_it_is_stopped_and_drained_then(tmp_path: Path) -> None:
    types = ["--data-types", "trade,book_change,trade_bar_1s"]
    with local_exchange() as exchange:
        words = ["publish", "--stream", *EXCHANGE, *types, *flags(exchange, tmp_path)]
        with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True) as process:
            # On a busy machine the snapshot of a book takes longer than two bars.
            wait_until(lambda: cases(tmp_path)["tradeBar"] >= 2, "bars are published")
            wait_until(lambda: cases(tmp_path)["bookChange"] >= 1, "a book is published")
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    events = published(tmp_path / "bus")
    assert f"files: {len(events):,} events delivered" in said
    assert len({event.event_id for event in events}) == len(events)
    assert {parse_event(event.envelope).origin for event in events} == {pb.ORIGIN_REALTIME}
    first_book = next(record for record in records_of(events) if record.type == "book_change")
    assert first_book.is_snapshot
    assert {"trade", "bookChange", "tradeBar"} <= set(cases(tmp_path))


async def read_streams(port: int, requests: list[dict[str, Any]], records: int) -> list[list[str]]:
    """Return the first records of several clients at the same time."""

    async def read(request: dict[str, Any]) -> list[str]:
        url = f"ws://127.0.0.1:{port + 1}/ws-stream-normalized"
        found: list[str] = []
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, params={"options": json.dumps([request])}) as socket,
        ):
            async for message in socket:
                found.append(str(message.data))
                if len(found) >= records:
                    return found
        return found

    return await asyncio.wait_for(asyncio.gather(*map(read, requests)), SECONDS)


def test_overlapping_clients_make_no_event_twice_and_control_events_are_published(
    tmp_path: Path,
) -> None:
    requests = [
        {"exchange": "bitmex", "symbols": symbols, "dataTypes": types}
        for symbols, types in (
            (["XBTUSD"], ["trade", "book_snapshot_2_1s"]),
            (["XBTUSD", "ETHUSD"], ["trade", "quote"]),
            (["XBTUSD"], ["trade", "book_snapshot_2_1s"]),
        )
    ]
    with local_exchange() as exchange:
        settings = [*flags(exchange, tmp_path)]
        with Machine(tmp_path / "cache", tmp_path, *settings) as machine:
            clients = asyncio.run(read_streams(machine.port, requests, 30))
            reading = asyncio.run(
                leave_while_the_exchange_ends(machine.port, requests[0], exchange)
            )
            wait_until(lambda: cases(tmp_path)["error"] > 0, "the failure is published")
            assert machine.stop() == 0
    assert reading > 0
    events = published(tmp_path / "bus")
    assert len({event.event_id for event in events}) == len(events)
    trades = [record for record in records_of(events) if record.type == "trade"]
    ids = [(trade.symbol, trade.id) for trade in trades]
    assert len(set(ids)) == len(ids)
    seen = {json.loads(line)["id"] for client in clients for line in client if '"trade"' in line}
    assert seen <= {number for _, number in ids}
    assert cases(tmp_path)["disconnect"] > 0


async def leave_while_the_exchange_ends(
    port: int, request: dict[str, Any], exchange: LocalExchange
) -> int:
    """Stream, let the exchange die, and stay until its failure had time to be noticed."""
    url = f"ws://127.0.0.1:{port + 1}/ws-stream-normalized"
    shown = {**request, "withErrorMessages": True}
    count = 0
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, params={"options": json.dumps([shown])}) as socket,
        asyncio.timeout(SECONDS),
    ):
        async for message in socket:
            count += 1
            if count == 5:
                exchange.process.kill()
            if '"type":"error"' in str(message.data):
                return count
    return 0
