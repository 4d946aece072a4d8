"""Signals: the first starts a graceful shutdown, the second ends it at once."""

import asyncio
import signal

from tardis_machine.cli.commands import ExitCode
from tardis_machine.sinks.publisher.process import PublisherProcess


class Endings:
    """Waits for SIGINT or SIGTERM; made inside a running event loop."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        """Set by the first signal."""
        self._publisher: PublisherProcess | None = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._take)

    def hurry(self, publisher: PublisherProcess | None) -> None:
        """Set the process to end at once on a second signal."""
        self._publisher = publisher

    async def wait(self) -> None:
        """Wait for the first signal."""
        await self.first.wait()

    def _take(self) -> None:
        if self.first.is_set() and self._publisher is not None:
            self._publisher.hurry()
        self.first.set()


def exit_code(publisher: PublisherProcess | None) -> ExitCode:
    """Return how a command ends whose publisher has ended."""
    is_lossy = publisher is not None and publisher.has_lost_events
    return ExitCode.EVENTS_LOST if is_lossy else ExitCode.OK
