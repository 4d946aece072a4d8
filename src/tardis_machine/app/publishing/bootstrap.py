"""What the publisher process is started with.

It is unpickled there, so this module must import no more than that process needs.
"""

from dataclasses import dataclass
from pathlib import Path

from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.telemetry.logs import LogSettings


@dataclass(frozen=True)
class Bootstrap:
    """The settings of the publisher process."""

    publishing: PublishingSettings
    logs: LogSettings
    old_places: tuple[Path, ...] = ()
    """Where the version before kept spools."""
