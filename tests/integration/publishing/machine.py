"""A real server process with its publisher, and what it left on the files bus."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psutil

from tardis_machine.bronze.decode import Decoder
from tardis_machine.buses.files.log import durable_end, read_blocks, segments
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines
from tests.servers.ports import free_ports

SECONDS = 240.0
COMMAND = [sys.executable, "-m", "tardis_machine"]
QUICK = [
    "--event-bus-retry-initial-ms",
    "10",
    "--event-bus-retry-max-ms",
    "100",
    "--event-bus-fsync-ms",
    "20",
    "--files-fsync-ms",
    "5",
]
"""Short pauses, so that tests are."""


class Published(NamedTuple):
    """One event as a consumer of the files bus reads it."""

    key: str
    headers: dict[str, str]
    envelope: bytes

    @property
    def event_id(self) -> str:
        return self.headers["eventId"]


def published(bus: Path, stream: str = "bronze") -> list[Published]:
    """Return every durable event of a stream in its order."""
    directory = bus / stream
    last, end_byte = durable_end(directory)
    return [
        Published(record.key, record.headers, record.envelope)
        for segment in segments(directory)
        if segment.number <= last
        for block in read_blocks(
            segment.path, end_byte=end_byte if segment.number == last else None
        )
        for record in block.records
    ]


def records_of(events: Sequence[Published]) -> list[NormalizedRecord]:
    return Decoder().decode(event.envelope for event in events)


def assert_equals_response(events: Sequence[Published], body: bytes) -> None:
    """Check that first arrivals hold what the response holds: as a whole, and in order per key."""
    first = {event.event_id: event for event in events}
    arrived, expected = records_of(list(first.values())), decode_lines(body)
    assert len(arrived) == len(expected)
    assert _by_key(arrived) == _by_key(expected)


def _by_key(records: Sequence[NormalizedRecord]) -> dict[tuple[str, ...], list[NormalizedRecord]]:
    found: dict[tuple[str, ...], list[NormalizedRecord]] = {}
    for record in records:
        key = record.type, getattr(record, "symbol", ""), getattr(record, "name", "")
        found.setdefault(key, []).append(record)
    return found


def wait_until(is_true: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


class Machine:
    """`tardis-machine serve` as its users start it."""

    def __init__(self, cache: Path, work: Path, *flags: str) -> None:
        self.port = 0
        self._work = work
        self._log = work
        self._flags = [
            f"--cache-dir={cache}",
            f"--event-bus-spool-dir={work / 'spool'}",
            "--offline",
            "--log-format=json",
            *QUICK,
            *flags,
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        self.wait_until_healthy()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def start(self) -> None:
        self.port = free_ports()
        self._log = self._work / f"log-{self.port}.jsonl"
        command = [*COMMAND, "serve", f"--port={self.port}", *self._flags]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
            )

    def wait_until_healthy(self) -> None:
        def answers() -> bool:
            assert self.process is not None
            if self.process.poll() is not None:
                # Somebody else was faster to take the port.
                assert "Cannot listen" in self.log(), self.log()
                self.start()
            try:
                return bool(self.health())
            except OSError:
                return False

        wait_until(answers, "the server answers")

    def log(self) -> str:
        return self._log.read_text()

    def health(self) -> dict[str, Any]:
        return dict(json.loads(self.health_check()[1]))

    def health_check(self) -> tuple[int, bytes]:
        """Return status and body of the answer, whether the server is well or not."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health-check") as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def bus(self, name: str = "files") -> dict[str, Any]:
        return dict(self.health().get("eventBus", {}).get(name, {}))

    def metric(self, name: str) -> float:
        """Return the sum of all series of a metric of publishing."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as response:
            lines = response.read().decode().splitlines()
        prefix = f"tardis_machine_event_bus_{name}{{"
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix))

    def adds_up(self) -> bool:
        """Say whether every accepted event is accounted for."""
        names = ("published", "filtered", "dead_letter", "dropped")
        settled = sum(self.metric(f"{name}_total") for name in names)
        waiting = self.metric("queue_events") + self.metric("parked_events")
        return self.metric("enqueued_total") == settled + waiting

    def replay(self, **options: Any) -> bytes:
        """Return the whole response of a normalized replay."""
        query = urllib.parse.quote(json.dumps(replay_options(**options)))
        url = f"http://127.0.0.1:{self.port}/replay-normalized?options={query}"
        with urllib.request.urlopen(url) as response:
            return bytes(response.read())

    @property
    def publisher(self) -> psutil.Process | None:
        """Return the publisher process."""
        assert self.process is not None
        for child in psutil.Process(self.process.pid).children():
            # One that was killed is still there until its parent has noticed.
            with suppress(psutil.NoSuchProcess):
                if "tardis_machine.app.publishing.process" in child.cmdline():
                    return child
        return None

    def kill_publisher(self) -> None:
        """Kill the publisher process, and wait until another one runs."""
        publisher = self.publisher
        assert publisher is not None
        publisher.kill()

        def is_replaced() -> bool:
            successor = self.publisher
            return successor is not None and successor.pid != publisher.pid

        wait_until(is_replaced, "another publisher runs")

    def signal(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = SECONDS) -> int:
        assert self.process is not None
        return self.process.wait(seconds)

    def stop(self) -> int:
        self.signal()
        return self.wait()

    def kill(self) -> None:
        """Kill the server and everything it started, as the death of the machine does."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def replay_options(**options: Any) -> dict[str, Any]:
    """Return a request for ten minutes of one symbol."""
    return {
        "exchange": "bitmex",
        "symbols": ["XBTUSD"],
        "from": "2024-03-01",
        "to": "2024-03-01T00:10",
        "dataTypes": ["trade", "book_change"],
        **options,
    }


def run_command(*words: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a command of tardis-machine to its end."""
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=seconds, check=False
    )
