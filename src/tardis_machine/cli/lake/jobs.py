"""What `lake ingest`, `lake build` and `lake run` share."""

import signal
import sys
import threading
from collections.abc import Sequence

from tardis_machine.app.settings.lake_commands import LakeJobSettings
from tardis_machine.cli.commands import ExitCode
from tardis_machine.lake.errors import BusUnavailableError, DataLossError
from tardis_machine.lake.jobs import Job, JobSettings, Stage


def run_job(settings: LakeJobSettings, stages: Sequence[Stage]) -> int:
    """Run stages of the lake until they are done or a signal comes."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    job = JobSettings(
        spark=settings.spark,
        lake=settings.lake,
        publishing=settings.publishing,
        once=settings.job.once,
        metrics_port=settings.job.metrics_port,
    )
    try:
        Job(job, stages, _say, stop).run()
    except DataLossError as error:
        _say(str(error))
        return ExitCode.EVENTS_LOST
    except BusUnavailableError as error:
        _say(str(error))
        return ExitCode.BUS_NOT_REACHED
    return ExitCode.OK


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
