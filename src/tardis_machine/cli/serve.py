"""`tardis-machine serve`, and `tardis-machine` alone."""

import asyncio
import os
import sys
from dataclasses import replace

from tardis_machine.app.settings.commands import ServeSettings
from tardis_machine.app.settings.exchange_variables import with_exchange_variables
from tardis_machine.app.wiring import open_server, worker_count
from tardis_machine.cli.commands import ExitCode
from tardis_machine.cli.signals import Endings, exit_code
from tardis_machine.sinks.publisher.process import BusNotReachedError
from tardis_machine.version import __version__

DOCUMENTATION = "https://docs.tardis.dev/api/tardis-machine"


def run(settings: ServeSettings) -> int:
    """Serve until a signal comes."""
    settings = replace(settings, live=with_exchange_variables(settings.live, os.environ))
    try:
        return asyncio.run(_serve(settings))
    except BusNotReachedError as error:
        print(error, file=sys.stderr)
        return ExitCode.BUS_NOT_REACHED


async def _serve(settings: ServeSettings) -> int:
    endings = Endings()
    async with open_server(settings) as publisher:
        endings.hurry(publisher)
        suffix = "(cluster mode)" if worker_count(settings) > 1 else ""
        print(f"tardis-machine server v{__version__} is running {suffix}")
        print(f"HTTP port: {settings.server.port}")
        print(f"WS port: {settings.server.port + 1}")
        print(f"See {DOCUMENTATION} for more information.", flush=True)
        await endings.wait()
    return exit_code(publisher)
