"""`tardis-machine lake run`: bus to Gold in one process."""

from tardis_machine.app.settings.lake_commands import LakeJobSettings
from tardis_machine.cli.lake.jobs import run_job
from tardis_machine.lake.jobs import ALL


def run(settings: LakeJobSettings) -> int:
    """Run until done or stopped."""
    return run_job(settings, ALL)
