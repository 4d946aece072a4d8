"""`tardis-machine bus status`: what waits on disk for each bus."""

from collections.abc import Iterator

import msgspec

from tardis_machine.app.publishing.backlogs import inventory
from tardis_machine.app.settings.bus_commands import BusStatusSettings
from tardis_machine.cli.commands import ExitCode
from tardis_machine.sinks.publisher.backlogs import Backlog
from tardis_machine.sinks.publisher.inventory import BusLag, Inventory

SHOWN_DESTINATIONS = 10
"""Of those with the most parked events, for each log."""


def run(settings: BusStatusSettings) -> int:
    """Print what is on disk; nothing is changed, and a server may run meanwhile."""
    found = inventory(settings)
    if settings.status.json:
        print(msgspec.json.encode(found).decode())
    else:
        print("\n".join(_lines(found)))
    return ExitCode.OK


def _lines(found: Inventory) -> Iterator[str]:
    yield f"Directory: {found.root}"
    for lag in found.buses:
        yield _lag_line(lag)
        for backlog in found.backlogs:
            if (backlog.bus, backlog.endpoint) == (lag.bus, lag.endpoint):
                yield from _backlog_lines(backlog)
    if not found.buses:
        yield "No logs: nothing waits."
    for letters in found.dead_letters:
        yield (
            f"Dead letters of {letters.bus}: {letters.events:,} events in {letters.path}. "
            f"To send them again: tardis-machine bus redrive {letters.path}"
        )
    for note in found.quarantine:
        yield (
            f"Quarantine: {note.bytes:,} bytes of log {note.log} at byte {note.offset:,}: "
            f"{note.reason}"
        )
    for spool in found.old_spools:
        yield (
            f"Spool of the version before: {spool.bus}, {_megabytes(spool.bytes)} in "
            f"{spool.directory}; the next start with this bus on sends it"
        )


def _lag_line(lag: BusLag) -> str:
    text = f"{lag.bus} at {lag.endpoint}: {lag.waiting_events:,} events wait"
    if lag.parked_events:
        text += f", {lag.parked_events:,} are parked"
    if lag.lag_seconds:
        text += f", the oldest for {lag.lag_seconds:,.1f} s"
    return text


def _backlog_lines(backlog: Backlog) -> Iterator[str]:
    waits = "nothing waits"
    if backlog.waiting_events:
        waits = (
            f"{backlog.waiting_events:,} events wait ({_megabytes(backlog.waiting_bytes)}), "
            f"the oldest for {backlog.lag_seconds:,.1f} s"
        )
    lost = f"; {backlog.dropped:,} lost so far" if backlog.dropped else ""
    yield (
        f"  log {backlog.log} of {backlog.producer_id}, {backlog.state}: {waits}; "
        f"byte {backlog.position:,} of {backlog.end:,}{lost}"
    )
    largest = sorted(backlog.parked, key=lambda each: (-each.events, each.destination))
    for parked in largest[:SHOWN_DESTINATIONS]:
        yield (
            f"    parked for {parked.destination}: {parked.events:,} events "
            f"({_megabytes(parked.bytes)}), the oldest for {parked.lag_seconds:,.1f} s"
        )
    if more := largest[SHOWN_DESTINATIONS:]:
        rest = f"{len(more):,} more destinations: {sum(each.events for each in more):,} events"
        yield f"    parked for {rest} (--json lists all)"


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"
