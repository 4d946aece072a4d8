"""The live part of the tour: exchanges on this machine, and a server that streams from them."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from tardis_machine.app.machine import TardisMachine
from tardis_machine.model.errors import TardisMachineError

STREAM_SECONDS = 4.0
PLACE = "Exchange gateway: "
REQUEST = {
    "exchange": "binance-futures",
    "symbols": ["btcusdt"],
    "dataTypes": ["trade", "book_change", "quote", "trade_bar_1s"],
    "withDisconnectMessages": True,
}


@contextmanager
def exchanges_on_this_machine(say: Callable[[str], None]) -> Iterator[str]:
    """Play exchanges while the body runs; give the gateway that leads to them."""
    words = ["simulate", "--serve", "0", "--seed", "7"]
    say(f"$ tardis-machine {' '.join(words)} &")
    with subprocess.Popen(  # noqa: S603 - our own command with our own arguments
        [sys.executable, "-m", "tardis_machine", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            gateway = next((line for line in process.stdout if line.startswith(PLACE)), "")
            if not gateway:
                raise TardisMachineError("The exchanges did not start; see the output above.")
            yield gateway.removeprefix(PLACE).strip()
        finally:
            process.terminate()


async def stream(gateway: str, directory: Path, port: int, say: Callable[[str], None]) -> list[str]:
    """Stream for some seconds, publish what comes to the files bus, and return it."""
    bus = {"files": {"dir": directory / "bus"}, "event_bus": {"spool_dir": directory / "spool"}}
    machine = TardisMachine(port=port, exchange_gateway=gateway, **bus)
    async with machine, aiohttp.ClientSession() as session:
        url = f"{machine.ws_url}/ws-stream-normalized"
        say(f"WS {url}?options={json.dumps([REQUEST])}")
        lines: list[str] = []
        async with session.ws_connect(url, params={"options": json.dumps([REQUEST])}) as socket:
            try:
                async with asyncio.timeout(STREAM_SECONDS):
                    async for message in socket:
                        lines.append(message.data)  # noqa: PERF401 - what came is kept
            except TimeoutError:
                return lines
    raise TardisMachineError("The live stream ended; see the output above.")


def counts(lines: list[str]) -> str:
    """Return how many records of each type there are."""
    types = Counter(json.loads(line)["type"] for line in lines)
    return ", ".join(f"{count:,} {name}" for name, count in types.most_common())
