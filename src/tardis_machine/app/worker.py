"""Entry point of a worker process.

`python -m tardis_machine.app.worker <descriptor> <folder for metrics> <index>`
"""

import asyncio
import pickle
import signal
import socket
import sys
from pathlib import Path

from tardis_machine.app.collector import regular_collection
from tardis_machine.app.reuse import Reuse
from tardis_machine.app.settings.commands import ServeSettings
from tardis_machine.app.wiring import open_services
from tardis_machine.server.worker import serve_passed_connections
from tardis_machine.sinks.publisher.address import PublisherAddress
from tardis_machine.telemetry.exposition import SharedRegistry
from tardis_machine.telemetry.logs import configure_logs
from tardis_machine.telemetry.metrics import Metrics

MAX_BOOTSTRAP_BYTES = 1 << 20


async def run(
    channel: socket.socket,
    settings: ServeSettings,
    registry: SharedRegistry,
    publisher: PublisherAddress | None,
    index: str,
) -> None:
    """Serve passed connections with services of this process's own."""
    metrics = Metrics(registry)
    async with (
        open_services(settings, metrics, publisher, index) as services,
        regular_collection(Reuse(metrics.values)),
    ):
        # Other workers read them, before this one counts anything.
        metrics.make()
        await serve_passed_connections(channel, services, registry.share)


def main() -> None:
    """Take settings from the parent, then serve until it closes the channel."""
    # A terminal sends Ctrl-C to every process; only the parent acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptor, metrics_folder, index = sys.argv[1:]
    with socket.socket(fileno=int(descriptor)) as channel:
        # The parent is ours and passes what it was started with.
        settings, publisher = pickle.loads(channel.recv(MAX_BOOTSTRAP_BYTES))  # noqa: S301
        configure_logs(settings.logs)
        registry = SharedRegistry(Path(metrics_folder), index)
        asyncio.run(run(channel, settings, registry, publisher, index))


if __name__ == "__main__":
    main()
