"""Start and stop everything that `simulate --serve` runs."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tardis_machine.model.errors import SettingsError
from tardis_machine.model.time import SECOND_US
from tardis_machine.server.exchange.clients import Clients
from tardis_machine.server.exchange.control import Control, report_problems
from tardis_machine.server.exchange.fault_control import FaultControl
from tardis_machine.server.exchange.gateway import Exchange, Gateway
from tardis_machine.server.exchange.injector import Injector
from tardis_machine.server.exchange.markets import LiveMarket
from tardis_machine.server.exchange.player import MarketClock, Player
from tardis_machine.server.exchange.settings import ExchangeSettings
from tardis_machine.server.exchange.venues import PROTOCOLS
from tardis_machine.sources.simulator import SimulatorSettings, chosen_exchanges, open_feeds
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

SHUTDOWN_SECONDS = 1.0
GOING_AWAY = 1001
MAX_ADDRESS_BYTES = 64 * 1024
"""Addresses may list hundreds of streams."""


@dataclass(frozen=True)
class Running:
    """The exchanges that are being played."""

    port: int
    exchanges: tuple[str, ...]
    player: asyncio.Task[None]
    """Ends only when it is cancelled, or fails."""


@asynccontextmanager
async def open_exchanges(
    simulated: SimulatorSettings,
    settings: ExchangeSettings,
    monotonic: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Running]:
    """Play the chosen exchanges while the body runs.

    Raises:
        UnknownNameError: an exchange cannot be simulated.
        SettingsError: the port cannot be listened on.
    """
    start_us = simulated.live_start_us(system_clock())
    clock = MarketClock(start_us, settings.speed, monotonic)
    exchanges = {
        name: _open_exchange(name, simulated, settings, clock)
        for name in chosen_exchanges(simulated, tuple(PROTOCOLS))
    }
    clients = Clients()
    markets = [market for entry in exchanges.values() for market in entry.markets.values()]
    player = Player(markets, clock, clients.flush)
    injector = Injector(settings.fault_rules, clients, clock, simulated.seed)
    gateway = Gateway(exchanges, clients, injector, clock, simulated.seed)
    control = Control(exchanges, clients, clock, player)
    app = _application(gateway, control, FaultControl(injector))
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        max_line_size=MAX_ADDRESS_BYTES,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        await _listen(runner, settings)
        async with (
            _running(player.run()) as playing,
            _running(clients.run_timers()),
            _running(injector.run()),
        ):
            yield Running(runner.addresses[0][1], tuple(exchanges), playing)
        for session in clients.sessions.values():
            session.connection.close(GOING_AWAY, "")
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, settings: ExchangeSettings) -> None:
    try:
        await web.TCPSite(runner, settings.serve_host, settings.serve).start()
    except OSError as error:
        place = f"{settings.serve_host}:{settings.serve}"
        raise SettingsError(f"Cannot serve on {place}: {error.strerror}.") from error


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run something beside the body, until the body ends."""
    task = asyncio.create_task(_reported(work))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _reported(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        log.exception("simulated exchanges failed")
        raise


def _open_exchange(
    name: str, simulated: SimulatorSettings, settings: ExchangeSettings, clock: MarketClock
) -> Exchange:
    markets: dict[str, LiveMarket[Any]] = {
        feed.symbol: LiveMarket(feed, settings.truth_updates)
        for feed in open_feeds(simulated, name, clock.us() // SECOND_US)
    }
    protocol = PROTOCOLS[name]
    rest = protocol.rest(markets, clock) if protocol.rest else None
    return Exchange(name, markets, protocol, rest)


def _application(gateway: Gateway, control: Control, faults: FaultControl) -> web.Application:
    app = web.Application(middlewares=[report_problems])
    app.router.add_get("/status", control.status)
    app.router.add_get("/connections", control.connections)
    app.router.add_get("/truth/{exchange}/{symbol:.+}", control.truth)
    app.router.add_get("/sent/{exchange}/{symbol:.+}", control.sent)
    app.router.add_get("/faults", faults.tell)
    app.router.add_post("/faults", faults.make)
    app.router.add_route("*", "/{host}", gateway.answer)
    app.router.add_route("*", "/{host}/{path:.*}", gateway.answer)
    return app
