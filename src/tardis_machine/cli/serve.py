"""`tardis-machine serve`, and `tardis-machine` alone."""

import asyncio
import signal

from tardis_machine.app.settings import ServeSettings
from tardis_machine.app.wiring import open_server, worker_count
from tardis_machine.version import __version__

DOCUMENTATION = "https://docs.tardis.dev/api/tardis-machine"


def run(settings: ServeSettings) -> int:
    """Serve until a signal comes."""
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: ServeSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with open_server(settings):
        suffix = "(cluster mode)" if worker_count(settings) > 1 else ""
        print(f"tardis-machine server v{__version__} is running {suffix}")
        print(f"HTTP port: {settings.server.port}")
        print(f"WS port: {settings.server.port + 1}")
        print(f"See {DOCUMENTATION} for more information.", flush=True)
        await stop.wait()
