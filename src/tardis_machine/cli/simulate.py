"""`tardis-machine simulate`: sample data in the layout of the cache, or exchanges played live."""

import sys

from tardis_machine.app.settings.simulate_command import SimulateSettings
from tardis_machine.cli.commands import ExitCode
from tardis_machine.model.errors import TardisMachineError
from tardis_machine.sources.simulator import Progress, simulate


def run(settings: SimulateSettings) -> int:
    """Write the slices, or serve the exchanges until a signal comes."""
    if settings.exchange.serve is None:
        return _write(settings)
    # Writing slices needs no web server.
    from tardis_machine.cli.simulate_serve import serve

    return serve(settings)


def _write(settings: SimulateSettings) -> int:
    """Write the slices and say how to use them."""
    out = settings.simulator.out
    is_terminal = sys.stderr.isatty()
    try:
        done = simulate(settings.simulator, _show if is_terminal else None)
    except OSError as error:
        raise TardisMachineError(
            f"Slices cannot be written to {out}: {error.strerror or error}. "
            "Free some space, or choose another directory with --out."
        ) from error
    if is_terminal:
        print("\r\x1b[K", end="", file=sys.stderr)
    print(
        f"Wrote {done.messages:,} messages in {done.slices:,} slices "
        f"({done.bytes_written / 1e6:.1f} MB) to {out}."
    )
    print(f"Replay them: tardis-machine --offline --cache-dir {out}")
    return ExitCode.OK


def _show(progress: Progress) -> None:
    print(
        f"\r\x1b[K{progress.exchange}: {progress.slices:,} of {progress.slices_total:,} slices",
        end="",
        file=sys.stderr,
        flush=True,
    )
