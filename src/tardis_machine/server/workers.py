"""Several processes behind one pair of ports.

The parent accepts connections and passes each to a worker over a Unix socket. Members of a
`/ws-replay` session must meet in one process, and so must all clients of live streams, which share
feeds: the parent looks at the head of WebSocket requests (without consuming it) and chooses by
session; everything else goes to the least loaded worker. A worker that dies is started again.
"""

import asyncio
import socket
import sys
import tempfile
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tardis_machine.server.settings import ServerSettings
from tardis_machine.telemetry.exposition import retire
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.process import worker_deaths

log = get_logger(__name__)

STREAM_PATH = "/ws-stream-normalized"

HTTP, WS = b"h", b"w"
"""First byte of a passed connection: which port it came in on."""

READY = b"ready"
MAX_REPORT_BYTES = 64
MAX_HEAD_BYTES = 65_536
PEEK_SECONDS = 5.0
BACKLOG = 1024
STOP_SECONDS = 5.0
BUSY_SECONDS = 0.01
"""Pause when a worker's queue or the process's table of files is full."""

_FIRST_RESTART_SECONDS = 0.1
_LONGEST_RESTART_SECONDS = 5.0


@dataclass
class Worker:
    """One process and how many connections it has."""

    index: int
    channel: socket.socket
    process: asyncio.subprocess.Process
    load: int = 0

    async def stop(self) -> None:
        """Close the channel, which ends the process, and wait for it."""
        self.channel.close()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


class Workers:
    """Starts workers, keeps them running and hands connections to them."""

    def __init__(
        self, count: int, command: Sequence[str], bootstrap: bytes, metrics_folder: Path
    ) -> None:
        self._count = count
        self._command = command
        self._bootstrap = bootstrap
        self._metrics_folder = metrics_folder
        self._workers: dict[int, Worker] = {}
        self._changed = asyncio.Condition()

    async def supervise(self, index: int) -> None:
        """Keep one worker running; a quick succession of deaths slows restarts down."""
        pause = _FIRST_RESTART_SECONDS
        while True:
            worker = await self._start(index)
            started = asyncio.get_running_loop().time()
            try:
                await self._follow(worker)
            finally:
                self._workers.pop(index, None)
                await asyncio.shield(worker.stop())
            log.error("worker died", worker=index, exit_code=worker.process.returncode)
            retire(self._metrics_folder, str(index), worker_deaths(1))
            lived = asyncio.get_running_loop().time() - started
            pause = (
                _FIRST_RESTART_SECONDS if lived > 60 else min(pause * 2, _LONGEST_RESTART_SECONDS)
            )
            await asyncio.sleep(pause)

    async def wait_until_ready(self) -> None:
        """Wait until every worker can take connections."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._workers) == self._count)

    async def hand_over(self, connection: socket.socket, port: bytes, session: str | None) -> None:
        """Pass a connection on; the caller closes its own copy."""
        while True:
            worker = await self._choose(session)
            worker.load += 1
            try:
                socket.send_fds(worker.channel, [port], [connection.fileno()])
            except BlockingIOError:
                # It has many waiting already; by now another one may have less to do.
                await asyncio.sleep(BUSY_SECONDS)
                continue
            except OSError:
                # It died this moment; another one, or its successor, takes the connection.
                if self._workers.get(worker.index) is worker:
                    del self._workers[worker.index]
                continue
            return

    async def _choose(self, session: str | None) -> Worker:
        async with self._changed:
            if session is None:
                await self._changed.wait_for(lambda: self._workers)
                return min(self._workers.values(), key=lambda worker: worker.load)
            index = zlib.crc32(session.encode()) % self._count
            await self._changed.wait_for(lambda: index in self._workers)
            return self._workers[index]

    async def _start(self, index: int) -> Worker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                str(theirs.fileno()),
                str(self._metrics_folder),
                str(index),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
            )
        ours.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(ours, self._bootstrap)
        return Worker(index, ours, process)

    async def _follow(self, worker: Worker) -> None:
        """Take a worker's reports until it is gone."""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while report := await loop.sock_recv(worker.channel, MAX_REPORT_BYTES):
                async with self._changed:
                    if report == READY:
                        self._workers[worker.index] = worker
                    else:
                        worker.load = int(report)
                    self._changed.notify_all()


@asynccontextmanager
async def listen_with_workers(
    settings: ServerSettings, count: int, worker_module: str, bootstrap: bytes
) -> AsyncIterator[None]:
    """Serve both ports with several processes while the body runs."""
    with (
        tempfile.TemporaryDirectory(prefix="tardis-machine-") as folder,
        socket.create_server((settings.host, settings.port), backlog=BACKLOG) as http,
        socket.create_server((settings.host, settings.port + 1), backlog=BACKLOG) as ws,
    ):
        command = [sys.executable, "-m", worker_module]
        workers = Workers(count, command, bootstrap, Path(folder))
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(workers.supervise(index)) for index in range(count)]
            try:
                await workers.wait_until_ready()
                # The ports close before the workers stop, so that no client waits for a response.
                is_encrypted = settings.tls_cert is not None
                async with (
                    _accepting(ws, WS, workers, is_encrypted=is_encrypted),
                    _accepting(http, HTTP, workers),
                ):
                    yield
            finally:
                for task in running:
                    task.cancel()


@asynccontextmanager
async def _accepting(
    listener: socket.socket, port: bytes, workers: Workers, *, is_encrypted: bool = False
) -> AsyncIterator[None]:
    """Accept connections while the body runs, then close the port."""
    with listener:
        async with asyncio.TaskGroup() as tasks:
            accept = tasks.create_task(_accept(listener, port, workers, is_encrypted=is_encrypted))
            try:
                yield
            finally:
                accept.cancel()


async def _accept(
    listener: socket.socket, port: bytes, workers: Workers, *, is_encrypted: bool
) -> None:
    """Accept connections and pass them on, none waiting for another."""
    listener.setblocking(False)
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError as error:
                # Too many open files, or the client closed the connection before it was accepted.
                log.warning("accept failed", error=str(error))
                await asyncio.sleep(BUSY_SECONDS)
                continue
            # What is encrypted hides its session; members mostly come from one address.
            client = address[0] if is_encrypted else None
            tasks.create_task(_dispatch(connection, port, workers, client))


async def _dispatch(
    connection: socket.socket, port: bytes, workers: Workers, client: str | None
) -> None:
    with connection:
        session = client
        if port == WS and client is None:
            session = await _peek_session(connection)
        await workers.hand_over(connection, port, session)


async def _peek_session(connection: socket.socket, seconds: float = PEEK_SECONDS) -> str | None:
    """Read the session key of a `/ws-replay` request without taking it from the socket."""
    try:
        async with asyncio.timeout(seconds):
            head = await _peek_request_line(connection)
        return _session_of(head.decode("latin-1"))
    except (TimeoutError, OSError, ValueError):
        # Slow, closed or not a valid request: the chosen worker handles it.
        return None


def _session_of(request_line: str) -> str | None:
    words = request_line.split(" ")
    target = urlsplit(words[1] if len(words) > 1 else "")
    if target.path.lower() == STREAM_PATH:
        # Live feeds are shared, so that all their clients meet in one process.
        return STREAM_PATH
    if target.path.lower() != "/ws-replay":
        return None
    return parse_qs(target.query).get("session", [None])[0]


async def _peek_request_line(connection: socket.socket) -> bytes:
    """Return the first line; nothing when the client left before its end."""
    connection.setblocking(False)
    seen = 0
    try:
        while True:
            await _wait_readable(connection)
            with suppress(BlockingIOError):
                head = connection.recv(MAX_HEAD_BYTES, socket.MSG_PEEK)
                if b"\r\n" in head or len(head) == MAX_HEAD_BYTES:
                    return head.partition(b"\r\n")[0]
                if len(head) == seen:
                    return b""
                seen = len(head)
                # It stays in the socket, which is readable again when more has come, or the end.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, seen + 1)
    finally:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


async def _wait_readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
