"""`tardis-machine` as a process that is killed: as a whole, or only where it publishes."""

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tardis_machine.app.publishing.wiring import PROCESS_MODULE
from tests.servers.ports import free_port
from tests.servers.process import spawn

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120
LOOK_SECONDS = 0.05
END_SECONDS = 1800
PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def common_flags(recordings: Path, spool: Path) -> list[str]:
    """Return where data comes from, and where events wait."""
    return ["--offline", "--cache-dir", str(recordings), "--event-bus-spool-dir", str(spool)]


class ProcessFailedError(RuntimeError):
    """A process did not do what it was started for."""


class Command:
    """One `tardis-machine` command and the publisher process below it.

    Args:
        arguments: command and flags.
        log: gets everything it prints.
    """

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._arguments = arguments
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.peak_mb = 0.0
        """Most memory that one publisher process ever had."""

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Say whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def log_text(self) -> str:
        """Return everything it printed."""
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Start it, for the first time or again."""
        command = [sys.executable, "-m", "tardis_machine", *self._arguments]
        self._process = spawn(command, self._log, ROOT)

    async def publisher(self) -> psutil.Process | None:
        """Return the publisher process as soon as it is there; None when the command has ended."""
        deadline = time.monotonic() + START_SECONDS
        while (found := self._find_publisher()) is None:
            if not self.is_running:
                return None
            if time.monotonic() > deadline:
                raise ProcessFailedError(f"No publisher process.\n{self.log_text[-2000:]}")
            await asyncio.sleep(0.005)
        return found

    async def kill_publisher(self) -> None:
        """Kill the publisher process; the one above it starts another."""
        publisher = await self.publisher()
        if publisher is not None:
            self.note_peak()
            publisher.kill()
            await asyncio.to_thread(psutil.wait_procs, [publisher])

    async def kill(self) -> None:
        """Kill every process of the command at once."""
        if not self.is_running:
            return
        self.note_peak()
        top = psutil.Process(self.pid)
        # Held still first: what one has left must not be noticed by another.
        tree = [top, *top.children(recursive=True)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for each in tree:
                each.send_signal(number)
        await asyncio.to_thread(psutil.wait_procs, tree[1:])
        await self.wait()

    async def end(self) -> int:
        """Ask it to end, and return its exit code once it has delivered everything."""
        self.note_peak()
        assert self._process is not None
        self._process.terminate()
        return await self.wait()

    async def wait(self) -> int:
        """Return its exit code."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, END_SECONDS)

    def note_peak(self) -> None:
        """Look how much memory the publisher process has had."""
        publisher = self._find_publisher()
        if publisher is None:
            return
        try:
            status = Path(f"/proc/{publisher.pid}/status").read_text()
        except OSError:
            return
        if found := PEAK.search(status):
            self.peak_mb = max(self.peak_mb, int(found[1]) / 1024)

    def _find_publisher(self) -> psutil.Process | None:
        try:
            for child in psutil.Process(self.pid).children():
                if PROCESS_MODULE in child.cmdline():
                    return child
        except psutil.Error:
            pass
        return None


class Server:
    """`tardis-machine serve` over recorded data, publishing to one bus.

    Args:
        recordings: the cache folder.
        folder: for spool and log.
        flags: of the bus, and whatever else differs.
    """

    def __init__(self, recordings: Path, folder: Path, flags: Sequence[str]) -> None:
        # Not one that an outgoing connection could take while the server is dead.
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.spool = folder / "spool"
        self.command = Command(
            ["serve", "--port", str(port), *common_flags(recordings, self.spool), *flags],
            folder / "server.log",
        )

    async def start(self) -> None:
        """Start the server, and return when it answers."""
        self.command.start()
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    await self.buses()
                    return
                except aiohttp.ClientConnectionError:
                    if not self.command.is_running:
                        raise ProcessFailedError(self.command.log_text[-2000:]) from None
                    await asyncio.sleep(0.02)

    async def buses(self) -> dict[str, Any]:
        """Return what the health check says of the buses."""
        async with self._session.get(f"{self.url}/health-check") as response:
            health: dict[str, Any] = await response.json()
        return health.get("eventBus", {})

    async def backlog(self) -> int:
        """Return how many accepted events are not delivered."""
        return sum(bus["queued"] + bus["parked"] for bus in (await self.buses()).values())

    async def wait_for_backlog(self, events: int) -> None:
        """Wait until at most so many accepted events are not delivered."""
        while True:
            if await self.backlog() <= events:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def metrics(self) -> dict[str, float]:
        """Return the metrics of publishing, added up over their labels."""
        async with self._session.get(f"{self.url}/metrics") as response:
            text = await response.text()
        values: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removeprefix("tardis_machine_event_bus_")
                values[name] = values.get(name, 0) + sample.value
        return values

    def replay(self, options: str) -> Any:
        """Ask for a replay; the response is a context."""
        return self._session.get(f"{self.url}/replay-normalized", params={"options": options})

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_read=END_SECONDS)
        connector = aiohttp.TCPConnector(force_close=True)
        self._session = aiohttp.ClientSession(timeout=timeout, connector=connector)
        try:
            await self.start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        await self._session.close()
        await self.command.kill()
