"""An event loop for sinks whose client is asyncio, inside the thread of the sink."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_CANCEL_SECONDS = 1.0
_SHORTEST_SECONDS = 0.001
"""Enough turns of the loop to read what has arrived and to answer it."""
_T = TypeVar("_T")


class PrivateLoop:
    """Runs only while the sink is called: no thread of its own, nothing to lock.

    Clients leave failed tasks behind when a connection dies. Their sink has the outcome already,
    so what they say about it goes to the debug log.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run until the work is done and return its result."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.set_exception_handler(_note)
        return self._loop.run_until_complete(work)

    def idle(self, seconds: float) -> None:
        """Let the tasks of the client go on for a while, however short."""
        self.run(asyncio.sleep(max(seconds, _SHORTEST_SECONDS)))

    def close(self) -> None:
        """Cancel what is left and release the loop; the next `run` makes a new one."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            loop.run_until_complete(_cancel_all())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
    # Transports that were closed or aborted say good-bye in the next turn of the loop.
    await asyncio.sleep(0)


def _note(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.debug(
        "client task failed", text=context["message"], error=type(context.get("exception")).__name__
    )
