"""Backlogs as the bus commands see them: by the settings of now."""

import asyncio
from collections.abc import Iterable, Sequence

from tardis_machine.app.publishing.wiring import old_places, work_directory
from tardis_machine.app.settings.bus_commands import BusCommandSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import BusSettings
from tardis_machine.model.errors import RequestError, nearest_hint
from tardis_machine.sinks.publisher.backlogs import Backlog, BacklogState, find_backlogs
from tardis_machine.sinks.publisher.inventory import Inventory, take_inventory
from tardis_machine.sinks.storage.directory import LogReader
from tardis_machine.telemetry.clock import system_clock

LOOK_AGAIN_SECONDS = 0.25
STATUS_HINT = "To see what waits: tardis-machine bus status"


def inventory(settings: BusCommandSettings) -> Inventory:
    """Say what is on disk."""
    publishing = settings.publishing
    root = work_directory(publishing)
    letters = {bus.bus: root / bus.bus for bus in publishing.buses}
    for bus in publishing.active:
        letters[bus.bus] = (publishing.delivery(bus).spool_dir or root) / bus.bus
    return take_inventory(
        root,
        configured_readers(publishing),
        publishing.event_bus.producer_id,
        letters,
        old_places(publishing, settings.archive.cache_dir),
        system_clock,
    )


def configured_readers(publishing: PublishingSettings) -> list[LogReader]:
    """Return the buses that are on, each at its endpoint."""
    return [LogReader(bus.bus, bus.endpoint) for bus in publishing.active]


def reader_of(publishing: PublishingSettings, bus: str) -> LogReader:
    """Return where a bus is now; RequestError when it is off."""
    for reader in configured_readers(publishing):
        if reader.bus == bus:
            return reader
    settings = _known_bus(publishing, bus)
    anchors = " or ".join(f"{bus}-{anchor}".replace("_", "-") for anchor in settings.anchors)
    raise RequestError(f"{settings.title} is off, so nothing can be sent to it. Set {anchors}.")


def stranded_backlogs(
    publishing: PublishingSettings, bus: str, endpoint: str | None
) -> list[Backlog]:
    """Return the stranded backlogs of a bus for one endpoint.

    Raises:
        RequestError: there are none, or for several endpoints.
    """
    stranded = [
        each
        for each in _backlogs(publishing, bus)
        if each.state is BacklogState.STRANDED and each.events
    ]
    return _of_one_endpoint(stranded, bus, endpoint, "stranded")


def parked_backlogs(
    publishing: PublishingSettings, bus: str, endpoint: str | None, destination: str
) -> list[Backlog]:
    """Return the backlogs of a bus with events that are parked for a destination.

    Raises:
        RequestError: there are none, or for several endpoints.
    """
    known = [each for each in _backlogs(publishing, bus) if each.parked]
    names = {parked.destination for each in known for parked in each.parked}
    if destination not in names:
        hint = nearest_hint(destination, names)
        has = f" {bus} has parked events of {', '.join(sorted(names))}." if names else ""
        raise RequestError(f"No parked events of '{destination}'.{hint}{has} {STATUS_HINT}")
    wanted = [
        each for each in known if any(parked.destination == destination for parked in each.parked)
    ]
    return _of_one_endpoint(wanted, bus, endpoint, "parked")


async def wait_until_sent(publishing: PublishingSettings, reader: LogReader) -> None:
    """Wait until a bus has settled everything that ended writers left it, but for parked events."""
    while any(  # noqa: ASYNC110 - another process sends
        each.reader == reader and each.state is BacklogState.WAITING and each.waiting_events
        for each in _backlogs(publishing, reader.bus)
    ):
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


def _backlogs(publishing: PublishingSettings, bus: str) -> list[Backlog]:
    _known_bus(publishing, bus)
    found = find_backlogs(
        work_directory(publishing),
        configured_readers(publishing),
        publishing.event_bus.producer_id,
        system_clock,
    )
    return [each for each in found if each.bus == bus]


def _known_bus(publishing: PublishingSettings, name: str) -> BusSettings:
    buses = {each.bus: each for each in publishing.buses}
    if name not in buses:
        raise RequestError(
            f"Unknown bus '{name}'.{nearest_hint(name, buses)} Valid: {', '.join(buses)}."
        )
    return buses[name]


def _of_one_endpoint(
    found: Sequence[Backlog], bus: str, endpoint: str | None, kind: str
) -> list[Backlog]:
    endpoints = sorted({each.endpoint for each in found})
    if not endpoints:
        raise RequestError(f"{bus} has no {kind} events. {STATUS_HINT}")
    if endpoint is None and len(endpoints) > 1:
        raise RequestError(
            f"--for-endpoint is required: {bus} has {kind} events for {_described(found)}."
        )
    wanted = endpoint or endpoints[0]
    if wanted not in endpoints:
        raise RequestError(
            f"{bus} has no {kind} events for '{wanted}', only for {_described(found)}."
        )
    return [each for each in found if each.endpoint == wanted]


def _described(found: Iterable[Backlog]) -> str:
    events: dict[str, int] = {}
    for each in found:
        events[each.endpoint] = events.get(each.endpoint, 0) + each.events
    return ", ".join(f"'{endpoint}' ({count:,} events)" for endpoint, count in events.items())
