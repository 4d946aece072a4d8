"""The offline tour: every step is a command you can type, run on data the simulator makes."""

import asyncio
import json
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from tardis_machine.app.demo_live import counts, exchanges_on_this_machine, stream
from tardis_machine.app.machine import TardisMachine
from tardis_machine.app.settings.commands import DemoOptions
from tardis_machine.model.errors import TardisMachineError

SHOWN_LINES = 3
BARS = (
    "select exchange, symbol, open_ts, open, high, low, close, round(volume, 1) as volume, trades "
    "from gold.bars where interval = '1m' order by 1, 2, 3 limit 10"
)
TYPES = "trade,book_change,derivative_ticker,liquidation,quote_1s,trade_bar_1m"


@dataclass(frozen=True)
class Step:
    """One stop of the tour: what it shows and the command that shows it."""

    title: str
    words: tuple[str, ...]


def steps(options: DemoOptions) -> list[Step]:
    """Return the commands of the tour, in order."""
    cache, bus, lake = (str(options.dir / name) for name in ("cache", "bus", "lake"))
    end = f"2024-03-01T00:{options.minutes:02d}"
    publish = ("publish", "--cache-dir", cache, "--offline", "--files-dir", bus)
    return [
        Step(
            "Simulate market data of four exchanges, in their native formats",
            ("simulate", "--out", cache, "--minutes", str(options.minutes), "--seed", "7"),
        ),
        *(
            Step(
                f"Publish {exchange} as Bronze envelopes to the files bus",
                (
                    *publish,
                    *("--exchange", exchange, "--data-types", TYPES),
                    *("--from", "2024-03-01", "--to", end),
                ),
            )
            # Both have a perpetual of BTC in USD, whose prices are compared.
            for exchange in ("bitmex", "deribit")
        ),
        Step(
            "Build the lake: Bronze, Silver and Gold tables",
            ("lake", "run", "--once", "--lake", lake, "--files-dir", bus),
        ),
        Step("List the tables", ("lake", "tables", "--lake", lake)),
        Step("Query the tables", ("lake", "query", "--lake", lake, BARS)),
    ]


def run_tour(options: DemoOptions, say: Callable[[str], None]) -> None:
    """Run every step and print what it does; the first failure ends the demo."""
    first, *others = steps(options)
    _run_step(first, say)
    for title, show in (
        ("Replay it over HTTP, as any tardis-machine client does", _ask_server),
        ("Stream live from exchanges on this machine, and publish what comes", _stream_live),
    ):
        say(f"\n# {title}")
        started = time.monotonic()
        asyncio.run(show(options, say))
        say(f"  ({time.monotonic() - started:.1f} s)")
    for step in others:
        _run_step(step, say)
    say(f"\nDone. The data is in {options.dir}; the commands above can be run again by hand.")


def _run_step(step: Step, say: Callable[[str], None]) -> None:
    say(f"\n# {step.title}\n$ tardis-machine {shlex.join(step.words)}")
    started = time.monotonic()
    done = subprocess.run(  # noqa: S603 - our own command with our own arguments
        [sys.executable, "-m", "tardis_machine", *step.words], check=False
    )
    if done.returncode:
        raise TardisMachineError(
            f"This step failed with exit code {done.returncode}; see its output above."
        )
    say(f"  ({time.monotonic() - started:.1f} s)")


async def _ask_server(options: DemoOptions, say: Callable[[str], None]) -> None:
    """Start a server on the simulated data and show what a client gets."""
    request = {
        "exchange": "bitmex",
        "symbols": ["XBTUSD"],
        "from": "2024-03-01",
        "to": f"2024-03-01T00:{options.minutes:02d}",
        "dataTypes": ["trade", "book_change", "quote", "trade_bar_1m"],
    }
    machine = TardisMachine(port=_free_port(), offline=True, cache_dir=options.dir / "cache")
    async with machine, aiohttp.ClientSession() as session:
        url = f"{machine.http_url}/replay-normalized"
        say(f"GET {url}?options={json.dumps(request)}")
        async with session.get(url, params={"options": json.dumps(request)}) as response:
            _show((await response.text()).splitlines(), say)


async def _stream_live(options: DemoOptions, say: Callable[[str], None]) -> None:
    """Start exchanges and a server, and show what a client gets of them."""
    with exchanges_on_this_machine(say) as gateway:
        _show(await stream(gateway, options.dir, _free_port(), say), say)


def _show(lines: list[str], say: Callable[[str], None]) -> None:
    for line in lines[1 : SHOWN_LINES + 1]:
        say(line if len(line) < 160 else f"{line[:157]}...")
    say(f"  {counts(lines)}")


def _free_port() -> int:
    """Return a port that is free, as the next one is."""
    while True:
        with socket.socket() as http, socket.socket() as ws:
            http.bind(("127.0.0.1", 0))
            port: int = http.getsockname()[1]
            try:
                ws.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port
