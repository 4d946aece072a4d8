"""Settings of the bus commands."""

from dataclasses import dataclass
from pathlib import Path

from tardis_machine.app.settings.commands import CommandSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.model.settings import REQUIRED, argument, group, option
from tardis_machine.sources.settings import ArchiveSettings


@dataclass(frozen=True, kw_only=True)
class BusCommandSettings(CommandSettings):
    """Settings of every bus command: those of the server or job whose events wait."""

    archive: ArchiveSettings = group(ArchiveSettings)
    publishing: PublishingSettings = group(PublishingSettings)


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """How the status is printed."""

    json: bool = option(default=False, help="Print one JSON object.")


@dataclass(frozen=True, kw_only=True)
class BusStatusSettings(BusCommandSettings):
    """Settings of `bus status`."""

    status: StatusOptions = group(StatusOptions, "bus-status", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class RedriveOptions:
    """What to send: a stranded backlog, or files."""

    bus: str | None = option(None, "Bus whose stranded backlog is sent.")
    for_endpoint: str | None = option(
        None, "Endpoint that the events were written for; required when there are several."
    )
    path: Path | None = argument(
        None, "Dead-letter file, segment, or directory of either, instead of a backlog."
    )


@dataclass(frozen=True, kw_only=True)
class BusRedriveSettings(BusCommandSettings):
    """Settings of `bus redrive`."""

    redrive: RedriveOptions = group(RedriveOptions, "bus-redrive", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class DiscardOptions:
    """What to give up."""

    bus: str = option(REQUIRED, "Bus whose events are given up.")
    for_endpoint: str | None = option(
        None, "Endpoint that the events were written for; required when there are several."
    )
    destination: str | None = option(
        None, "Give up only the events that are parked for this destination."
    )
    yes: bool = option(default=False, help="Do it; without this, only say what would be lost.")


@dataclass(frozen=True, kw_only=True)
class BusDiscardSettings(BusCommandSettings):
    """Settings of `bus discard`."""

    discard: DiscardOptions = group(DiscardOptions, "bus-discard", flag_prefix="")
