"""`tardis-machine simulate`: deterministic sample data in the layout of the cache."""

import sys

from tardis_machine.app.settings.commands import SimulateSettings
from tardis_machine.sources.simulator import Progress, simulate


def run(settings: SimulateSettings) -> int:
    """Write the slices and say how to use them."""
    out = settings.simulator.out
    is_terminal = sys.stderr.isatty()
    done = simulate(settings.simulator, _show if is_terminal else None)
    if is_terminal:
        print("\r\x1b[K", end="", file=sys.stderr)
    print(
        f"Wrote {done.messages:,} messages in {done.slices:,} slices "
        f"({done.bytes_written / 1e6:.1f} MB) to {out}."
    )
    print(f"Replay them: tardis-machine --offline --cache-dir {out}")
    return 0


def _show(progress: Progress) -> None:
    print(
        f"\r\x1b[K{progress.exchange}: {progress.slices:,} of {progress.slices_total:,} slices",
        end="",
        file=sys.stderr,
        flush=True,
    )
