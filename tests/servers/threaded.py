"""One server inside this process: an event loop in a thread of its own."""

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from tests.servers.lifecycle import Lifecycle
from tests.servers.ports import free_port
from tests.servers.process import ServerFailedError

CALL_SECONDS = 240

Result = TypeVar("Result")


class ServerThread(Lifecycle):
    """A server on a port of its own, whose state is touched by its own loop only.

    `stop` closes the port and every connection and keeps the state, so that `start` brings the
    same server back; to a client, `kill` is the same thing without a good-bye.
    """

    def __init__(self, *, port: int | None = None) -> None:
        self.port = port or free_port()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_open = False

    @abstractmethod
    async def open(self) -> None:
        """Listen on the port."""

    @abstractmethod
    async def shut(self) -> None:
        """Stop listening and reset every connection."""

    @property
    def endpoint(self) -> str:
        """Return host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """Return what the client library takes."""
        return self.address_at(self.endpoint)

    def address_at(self, endpoint: str) -> str:
        """Return `address` for a client that comes in by another endpoint, such as a proxy."""
        return endpoint

    @property
    def is_running(self) -> bool:
        """Say whether clients may come."""
        return self._is_open

    def start(self) -> Self:
        """Listen, on the same port as before."""
        if self._is_open:
            raise ServerFailedError(f"{type(self).__name__} is already running.")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            name = type(self).__name__
            self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
            self._thread.start()
        self.run(self.open())
        self._is_open = True
        return self

    def stop(self) -> None:
        """Close the port and reset every connection."""
        if self._is_open:
            self._is_open = False
            self.run(self.shut())

    def kill(self) -> None:
        """Do as `stop`: there is no process to kill."""
        self.stop()

    def restart(self) -> None:
        """Stop and start again."""
        self.stop()
        self.start()

    def heal(self) -> None:
        """Bring the server back, whatever a test did to it."""
        if not self._is_open:
            self.start()

    def close(self) -> None:
        """Stop and end the thread."""
        self.stop()
        if self._loop is not None and self._thread is not None:
            self.run(_cancel_all())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_SECONDS)
            self._loop.close()
            self._loop = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the server's loop and wait for its result."""
        if self._loop is None:
            work.close()
            raise ServerFailedError(f"{type(self).__name__} is not running.")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    def do(self, change: Callable[[], Result]) -> Result:
        """Call a function on the server's loop, where nothing else touches its state."""

        async def call() -> Result:
            return change()

        return self.run(call())


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
