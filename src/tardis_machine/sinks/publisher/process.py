"""The publisher process as its parent sees it: started, restarted, drained, ended."""

import asyncio
import pickle
import shutil
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from tardis_machine.model.errors import SinkError
from tardis_machine.sinks.publisher.address import (
    DOORBELL,
    PublisherAddress,
    is_deserted,
    listening_doorbell,
)
from tardis_machine.sinks.publisher.protocol import (
    DRAIN,
    EVENTS_LOST,
    FAILED,
    MAX_MESSAGE_BYTES,
    NOW,
    READY,
    REPORT,
    FinalReport,
)
from tardis_machine.sinks.publisher.supervision import Supervision, write_supervision
from tardis_machine.sinks.storage.losses import lost_events
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

ENDINGS = (0, EVENTS_LOST)

_FIRST_RESTART_SECONDS = 0.05
_LONGEST_RESTART_SECONDS = 5.0
_STABLE_SECONDS = 60.0
_KILL_SECONDS = 10.0
"""How much longer than its drain the process may take to end."""

SILENT_SECONDS = 30.0
"""A process that runs says so every second; one that was silent for this time, twice, hangs. Once
is not enough: after a pause of the whole container it needs a moment."""
_PREFIX = "tardis-machine-"
_KIB = 1024
_STATUS_BYTES, _SUPERVISION_BYTES = 256 * _KIB, 4 * _KIB


class BusNotReachedError(SinkError):
    """A bus that is required was not reached in time."""


class PublisherProcess:
    """Runs the publisher process and starts it again when it dies.

    Args:
        module: what to run with `python -m`; it gets two descriptors: doorbell and control.
        bootstrap: settings for the process, pickled to it with its address.
        root: where logs are.
        drain_seconds: how long it may take to deliver what is left.
        silent_seconds: a process that was silent twice as long hangs, and is killed.
    """

    def __init__(
        self,
        module: str,
        bootstrap: Any,
        root: Path,
        drain_seconds: float,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._command: Sequence[str] = [sys.executable, "-m", module]
        self._bootstrap = bootstrap
        self._drain_seconds = drain_seconds
        self._silent_seconds = silent_seconds
        self.address, self._doorbell = _open_address(root)
        """Where writers find it, and where it hears them."""
        self._is_started = False
        self._supervision = Supervision()
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._is_ending = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reports: dict[str, FinalReport] = {}
        """What became of the events of each bus, once the process has ended as it should."""
        self._lost = 0

    @property
    def process_id(self) -> int | None:
        """Return the id of the running process."""
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        """Return how the process ended."""
        return self._process.returncode if self._process else None

    @property
    def has_lost_events(self) -> bool:
        """Say whether events were lost, once the process has ended."""
        return self.exit_code == EVENTS_LOST or self._lost > 0

    async def wait_until_ready(self) -> None:
        """Wait until it takes streams; BusNotReachedError when a required bus is missing."""
        await self._ready

    async def supervise(self) -> None:
        """Keep the process running until it is drained."""
        pause = _FIRST_RESTART_SECONDS
        while True:
            started = asyncio.get_running_loop().time()
            await self._run_once()
            # One that dies while it drains is started again: what is left is in the log.
            has_ended = self._is_ending and self.exit_code in ENDINGS
            if has_ended or not self._is_started:
                break
            log.error("publisher process exited unexpectedly; restarting", exit_code=self.exit_code)
            self._note(self._supervision.after_death(time.time()))
            lived = asyncio.get_running_loop().time() - started
            await asyncio.sleep(pause)
            is_stable = lived > _STABLE_SECONDS
            pause = (
                _FIRST_RESTART_SECONDS if is_stable else min(pause * 2, _LONGEST_RESTART_SECONDS)
            )
        if not self._ready.done():
            self._ready.set_exception(SinkError("The publisher process did not start."))

    def drain(self) -> None:
        """Let it deliver what is left at once, and end when nothing more is written."""
        self._is_ending = True
        self._tell(DRAIN)

    def hurry(self) -> None:
        """Let it end now; what is left stays in the log."""
        self._tell(NOW)

    async def end(self, supervision: "asyncio.Task[None]") -> None:
        """Wait for the end of the process, and clean up."""
        self.drain()
        try:
            await asyncio.wait_for(supervision, self._drain_seconds + _KILL_SECONDS)
        except TimeoutError:
            log.error("publisher process killed: shutdown timed out")
            if self._process is not None and self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
        finally:
            if self._is_started and not self.reports:
                self._take_stock()
            self._doorbell.close()
            shutil.rmtree(self.address.folder, ignore_errors=True)

    async def _run_once(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptors = [self._doorbell.fileno(), theirs.fileno()]
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                *map(str, descriptors),
                pass_fds=descriptors,
                stdin=asyncio.subprocess.DEVNULL,
            )
        ours.setblocking(False)
        self._control = ours
        with ours:
            # One that dies before it has read its settings is one that died.
            with suppress(ConnectionError):
                await self._converse(ours)
            await self._process.wait()
        self._control = None

    def _take_stock(self) -> None:
        """Find out what was lost where the process did not live to say it."""
        with suppress(OSError):
            self._lost = lost_events(self.address.root, self.address.instance)
        log.error("publisher process ended without a final report", lost=self._lost)

    async def _converse(self, control: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        first = (self._bootstrap, self.address, not self._is_started)
        await loop.sock_sendall(control, pickle.dumps(first))
        if self._is_ending:
            self._tell(DRAIN)
        seconds: float | None = None
        is_silent = False
        while True:
            try:
                async with asyncio.timeout(seconds):
                    message = await loop.sock_recv(control, MAX_MESSAGE_BYTES)
            except TimeoutError:
                if is_silent:
                    self._kill_hanging()
                is_silent = True
                continue
            if not message:
                return
            self._hear(message)
            # What it does before it is ready may take long.
            seconds, is_silent = self._silent_seconds, False

    def _kill_hanging(self) -> None:
        """End a process that says nothing; it is started again and reads on."""
        assert self._process is not None
        log.error("publisher process killed: not responding", seconds=2 * self._silent_seconds)
        with suppress(ProcessLookupError):
            self._process.kill()

    def _hear(self, message: bytes) -> None:
        if message.startswith(REPORT):
            report = message.removeprefix(REPORT)
            self.reports = msgspec.json.decode(report, type=dict[str, FinalReport])
        elif message == READY and self._is_started:
            self._note(self._supervision.after_start())
        elif not self._ready.done():
            if message == READY:
                self._is_started = True
                self._ready.set_result(None)
            elif message.startswith(FAILED):
                text = message.removeprefix(FAILED).decode()
                self._ready.set_exception(BusNotReachedError(text))

    def _note(self, supervision: Supervision) -> None:
        """Let every worker know whether the publisher runs; on a full disk they learn it later."""
        self._supervision = supervision
        with suppress(OSError):
            write_supervision(self.address.supervision, supervision)

    def _tell(self, message: bytes) -> None:
        if self._control is not None:
            with suppress(OSError):
                self._control.send(message)


def _open_address(root: Path) -> tuple[PublisherAddress, socket.socket]:
    """Make what writers and the process share, with all the room on the disk that it will need."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    address = PublisherAddress(folder, root, uuid.uuid4().hex)
    try:
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            # First: whoever finds nobody at a doorbell removes what is beside it.
            doorbell = undo.enter_context(listening_doorbell(address.doorbell))
            _remove_leftovers(folder.parent)
            address.status.make(_STATUS_BYTES)
            address.supervision.make(_SUPERVISION_BYTES)
            undo.pop_all()
    except OSError as error:
        raise SinkError(
            f"Publishing needs a socket and {_STATUS_BYTES // _KIB} KiB in {folder.parent}: "
            f"{error.strerror or error}. Make room there, or set TMPDIR to another directory."
        ) from error
    return address, doorbell


def _remove_leftovers(temporary: Path) -> None:
    """Delete what servers and jobs left that were killed: nobody hears their doorbells."""
    for folder in temporary.glob(f"{_PREFIX}*"):
        if is_deserted(folder / DOORBELL):
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def running_process(
    module: str,
    bootstrap: Any,
    root: Path,
    drain_seconds: float,
    silent_seconds: float = SILENT_SECONDS,
) -> AsyncIterator[PublisherProcess]:
    """Run a publisher process while the body runs, then let it deliver what is left.

    Raises:
        BusNotReachedError: a required bus was not reached.
    """
    process = PublisherProcess(module, bootstrap, root, drain_seconds, silent_seconds)
    supervision = asyncio.create_task(process.supervise(), name="publisher process")
    try:
        await process.wait_until_ready()
        yield process
    finally:
        await asyncio.shield(process.end(supervision))
