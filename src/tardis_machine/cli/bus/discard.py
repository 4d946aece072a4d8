"""`tardis-machine bus discard`: gives up what nobody will send."""

import sys

from tardis_machine.app.publishing.backlogs import parked_backlogs, stranded_backlogs
from tardis_machine.app.publishing.wiring import work_directory
from tardis_machine.app.settings.bus_commands import BusDiscardSettings
from tardis_machine.cli.commands import ExitCode
from tardis_machine.sinks.publisher.backlog_changes import discard, discard_parked
from tardis_machine.sinks.publisher.backlogs import Backlog


def run(settings: BusDiscardSettings) -> int:
    """Give up a stranded backlog or the parked events of a destination; say how many events."""
    options, publishing = settings.discard, settings.publishing
    root, destination = work_directory(publishing), options.destination
    if destination is None:
        backlogs = stranded_backlogs(publishing, options.bus, options.for_endpoint)
    else:
        backlogs = parked_backlogs(publishing, options.bus, options.for_endpoint, destination)
    if not options.yes:
        print(
            f"This gives up {_count(backlogs, destination):,} events of {options.bus} at "
            f"{backlogs[0].endpoint}. Nothing was changed; add --yes to do it.",
            file=sys.stderr,
        )
        return ExitCode.USAGE
    if destination is None:
        events = discard(root, backlogs)
    else:
        events = discard_parked(root, backlogs, destination)
    print(f"{events:,} events of {options.bus} at {backlogs[0].endpoint} were discarded.")
    return ExitCode.OK


def _count(backlogs: list[Backlog], destination: str | None) -> int:
    if destination is None:
        return sum(backlog.events for backlog in backlogs)
    parked = (each for backlog in backlogs for each in backlog.parked)
    return sum(each.events for each in parked if each.destination == destination)
