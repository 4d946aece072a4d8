"""`tardis-machine simulate --serve`: the simulated exchanges, live."""

import asyncio

from tardis_machine.app.settings.simulate_command import SimulateSettings
from tardis_machine.cli.commands import ExitCode
from tardis_machine.cli.signals import Endings
from tardis_machine.server.exchange.serve import Running, open_exchanges


def serve(settings: SimulateSettings) -> int:
    """Serve the exchanges until a signal comes."""
    return asyncio.run(_serve(settings))


async def _serve(settings: SimulateSettings) -> int:
    endings = Endings()
    async with open_exchanges(settings.simulator, settings.exchange) as running:
        _say_where(settings.exchange.serve_host, running)
        ended = asyncio.create_task(endings.wait())
        await asyncio.wait({ended, running.player}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if running.player.done():
            await running.player  # it failed, and raises why
    return ExitCode.OK


def _say_where(host: str, running: Running) -> None:
    place = f"{host}:{running.port}"
    print(f"Simulated exchanges are running: {', '.join(running.exchanges)}")
    print(f"Exchange gateway: http://{place}")
    print(f"wss://HOST/PATH of an exchange is ws://{place}/HOST/PATH here, https:// likewise.")
    print(f"See http://{place}/status for hosts, symbols and clients.", flush=True)
