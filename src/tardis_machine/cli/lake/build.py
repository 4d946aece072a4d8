"""`tardis-machine lake build`: Bronze to Silver and Gold."""

from tardis_machine.app.settings.lake_commands import LakeJobSettings
from tardis_machine.cli.lake.jobs import run_job
from tardis_machine.lake.jobs import SILVER_AND_GOLD


def run(settings: LakeJobSettings) -> int:
    """Run until done or stopped."""
    return run_job(settings, SILVER_AND_GOLD)
