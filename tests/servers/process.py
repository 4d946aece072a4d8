"""One server as a child process: started, killed, paused and restarted by its pid."""

import functools
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Self

import psutil

from tests.servers.lifecycle import Lifecycle
from tests.servers.ports import free_port

LOG_TAIL_LINES = 30


class ServerFailedError(RuntimeError):
    """A server exited or did not become ready."""


@functools.cache
def _spawner() -> ThreadPoolExecutor:
    # A parent-death signal follows the thread that forked, not the process. One thread that
    # lives as long as the interpreter makes a server outlive whoever called `start`.
    return ThreadPoolExecutor(1, thread_name_prefix="server-spawner")


def spawn(
    command: list[str], log: Path, directory: Path, *, has_pipes: bool = False
) -> "subprocess.Popen[bytes]":
    """Start a child that dies with this process, even when this process is killed.

    Its output goes to `log`; with `has_pipes`, its standard input and output are ours.
    """
    if setpriv := shutil.which("setpriv"):
        command = [setpriv, "--pdeathsig", "KILL", "--", *command]

    def fork() -> "subprocess.Popen[bytes]":
        with log.open("ab") as out:
            return subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.PIPE if has_pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if has_pipes else out,
                stderr=out,
            )

    return _spawner().submit(fork).result()


class ServerProcess(Lifecycle):
    """A server of our own: its port, its data directory, its process.

    `start` returns when the server answers its own protocol. `stop` and `kill` keep port and
    data, so that `start` brings the same server back; `close` removes the data.
    """

    name: ClassVar[str]
    start_seconds: ClassVar[float] = 240
    has_pipes: ClassVar[bool] = False

    def __init__(self, *, port: int | None = None, directory: Path | None = None) -> None:
        self.port = port or free_port()
        self._is_own_directory = directory is None
        fresh = Path(tempfile.gettempdir(), f"tm-{self.name}-{secrets.token_hex(6)}")
        self.directory = directory or fresh
        self._process: subprocess.Popen[bytes] | None = None
        self._is_paused = False

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line, after writing what it reads from the data directory."""

    @abstractmethod
    def ping(self) -> None:
        """Ask the server something in its own protocol; raise when it does not answer."""

    @property
    def endpoint(self) -> str:
        """Return host and port, for a proxy to stand before."""
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """Return what the client library takes: an address, a URL or a connection string."""
        return self.address_at(self.endpoint)

    def address_at(self, endpoint: str) -> str:
        """Return `address` for a client that comes in by another endpoint, such as a proxy."""
        return endpoint

    @property
    def pid(self) -> int:
        """Return the process id of the running server."""
        if self._process is None:
            raise ServerFailedError(f"{self.name} is not running.")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Say whether the process is alive, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def working_directory(self) -> Path:
        """Return where the process runs."""
        return self.directory

    @property
    def log_path(self) -> Path:
        """Return the file with everything the server printed."""
        return self.directory / "server.log"

    def start(self) -> Self:
        """Start the server and wait until it answers."""
        if self.is_running:
            raise ServerFailedError(f"{self.name} is already running.")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = spawn(
            self.command(), self.log_path, self.working_directory, has_pipes=self.has_pipes
        )
        self._is_paused = False
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self.start_seconds
        reason: object = "no listening socket"
        while time.monotonic() < deadline:
            if not self.is_running:
                raise ServerFailedError(f"{self.name} exited.\n{self._log_tail()}")
            if self.is_listening():
                try:
                    return self.ping()
                except Exception as exc:
                    reason = exc
            time.sleep(0.01)
        raise ServerFailedError(
            f"{self.name} was not ready in {self.start_seconds} s ({reason}).\n{self._log_tail()}"
        )

    def is_listening(self) -> bool:
        """Say whether the port is open and our process is the one that opened it."""
        # An open port proves nothing on a shared machine: it must belong to our process.
        try:
            connections = psutil.Process(self.pid).net_connections("tcp")
        except psutil.Error:
            return False
        return any(c.status == "LISTEN" and c.laddr.port == self.port for c in connections)

    def _log_tail(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def stop(self, seconds: float = 15) -> None:
        """End the server as its operator would, by SIGTERM; kill it after `seconds`."""
        if self._process is None:
            return
        if self._is_paused:
            self.resume()
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def kill(self) -> None:
        """End the server by SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def restart(self) -> None:
        """Stop the server if it runs and start it again on the same port and data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the process: its connections stay open and nothing answers."""
        self._is_paused = True
        self._signal(signal.SIGSTOP)
        # Threads on other cores run on for a moment, long enough to answer.
        while not _is_frozen(self.pid):
            time.sleep(0.001)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)
        self._is_paused = False

    def _signal(self, number: signal.Signals) -> None:
        psutil.Process(self.pid).send_signal(number)

    def heal(self) -> None:
        """Bring the server back, whatever a test did to it."""
        if not self.is_running:
            self.kill()
            self.start()
        elif self._is_paused:
            self.resume()

    def close(self) -> None:
        """Kill the server and remove the data directory unless the caller gave it."""
        self.kill()
        if self._is_own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)


def _is_frozen(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    # The state follows the name, which is in parentheses and may hold spaces.
    return all(stat.read_text().rpartition(")")[2].split()[0] in "Tt" for stat in threads)
