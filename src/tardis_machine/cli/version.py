"""`tardis-machine version`."""

from tardis_machine.app.settings.commands import CommandSettings
from tardis_machine.version import __version__


def run(_settings: CommandSettings) -> int:
    """Print the bare version."""
    print(__version__)
    return 0
