"""`tardis-machine version`."""

from tardis_machine.app.settings.commands import CommandSettings
from tardis_machine.model.compiled import describe
from tardis_machine.version import __version__


def run(_settings: CommandSettings) -> int:
    """Print the bare version, and in a second line whether compiled code runs."""
    print(__version__)
    print(f"hot loops: {describe()}")
    return 0
