"""`tardis-machine demo`: the offline tour."""

from tardis_machine.app.demo import run_tour
from tardis_machine.app.settings.commands import DemoSettings


def run(settings: DemoSettings) -> int:
    """Run the tour."""
    run_tour(settings.demo, lambda text: print(text, flush=True))
    return 0
