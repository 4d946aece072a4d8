"""Memory of the publisher process with six buses and a thousand symbols, until all is delivered.

The slow buses lag behind the others, so each of them reads and encodes by itself for most of the
time: that is the largest the process gets. Servers are real and local.
"""

import argparse
import asyncio
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from benchmarks.publishing import BUSES, META, SLOW_BUSES, with_publisher
from tardis_machine.app.settings.keywords import settings_of
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.model.ndjson import NormalizedRecord, encode_lines
from tardis_machine.model.records import BookChange, BookLevel, Trade
from tardis_machine.model.time import ms_text, us_text
from tardis_machine.sinks.publisher.client import PublisherClient
from tardis_machine.sinks.publisher.process import PublisherProcess

START_US = 1_709_251_200_000_000
CHUNK_EVENTS = 1000
SAMPLE_SECONDS = 0.2
MIB = 1_048_576
TARGET_MB = 150


def record(number: int, symbols: int) -> NormalizedRecord:
    """Return a trade or a book change of one of so many symbols."""
    common: dict[str, Any] = {
        "symbol": f"SYM{number % symbols}USDT",
        "exchange": "binance-futures",
        "timestamp": ms_text((START_US + number * 70) // 1000),
        "local_timestamp": us_text(START_US + number * 70),
    }
    if number % 5:
        bids = [BookLevel(1.5 + number % 7, 2.0)]
        return BookChange(is_snapshot=False, bids=bids, asks=[], **common)
    return Trade(id=str(number), price=1.5, amount=number % 9 + 1.0, side="buy", **common)


async def publish(client: PublisherClient, events: int, symbols: int) -> None:
    """Write events as one live stream, which waits for nobody."""
    stream = client.stream(Origin.REALTIME, META)
    for first in range(0, events, CHUNK_EVENTS):
        numbers = range(first, first + CHUNK_EVENTS)
        stream.publish_now(encode_lines([record(number, symbols) for number in numbers]))
        await asyncio.sleep(0)
    stream.close()
    await client.wait_until_settled()


async def sample(process_id: int, sizes: list[float]) -> None:
    """Note the resident memory of a process again and again."""
    process = psutil.Process(process_id)
    while True:
        sizes.append(process.memory_info().rss / MIB)
        await asyncio.sleep(SAMPLE_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--symbols", type=int, default=1000)
    arguments = parser.parse_args()

    async def body(process: PublisherProcess, client: PublisherClient) -> list[float]:
        sizes: list[float] = []
        assert process.process_id is not None
        sampling = asyncio.create_task(sample(process.process_id, sizes))
        await publish(client, arguments.events, arguments.symbols)
        sampling.cancel()
        return sizes

    makers = {**BUSES, **SLOW_BUSES}
    del makers["event-hubs by kafka"]
    with ExitStack() as servers, tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {}
        for start in makers.values():
            options |= servers.enter_context(start()).options
        settings = settings_of(PublishingSettings, options)
        began = time.monotonic()
        sizes = asyncio.run(with_publisher(settings, Path(folder), body))
    print(
        f"publisher process, {len(makers)} buses, {arguments.symbols:,} symbols, "
        f"{arguments.events:,} events in {time.monotonic() - began:.0f} s: "
        f"{max(sizes):.0f} MB at most, {sizes[-1]:.0f} MB at the end   target {TARGET_MB} MB"
    )


if __name__ == "__main__":
    main()
