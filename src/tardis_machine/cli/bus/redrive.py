"""`tardis-machine bus redrive`: what is stranded or was given up, to the buses of now."""

import asyncio
import sys
import time

from tardis_machine.app.publishing.backlogs import reader_of, stranded_backlogs, wait_until_sent
from tardis_machine.app.publishing.wiring import running_publisher, work_directory
from tardis_machine.app.settings.bus_commands import BusRedriveSettings
from tardis_machine.app.settings.commands import PublishOptions, PublishSettings
from tardis_machine.cli import publish
from tardis_machine.cli.commands import ExitCode
from tardis_machine.cli.signals import Endings, exit_code
from tardis_machine.model.errors import RequestError
from tardis_machine.sinks.publisher.backlog_changes import hand_over
from tardis_machine.sinks.publisher.process import BusNotReachedError
from tardis_machine.sinks.storage.directory import LogReader


def run(settings: BusRedriveSettings) -> int:
    """Send events again, and print the final counts of every bus."""
    options = settings.redrive
    if options.path is not None:
        return publish.run(_publish_settings(settings))
    if options.bus is None:
        raise RequestError(
            "Nothing to send: give --bus with a stranded backlog, or the path of dead letters or "
            "segments. To see what waits: tardis-machine bus status"
        )
    reader = reader_of(settings.publishing, options.bus)
    backlogs = stranded_backlogs(settings.publishing, options.bus, options.for_endpoint)
    events = hand_over(work_directory(settings.publishing), backlogs, reader)
    print(f"{events:,} events for {backlogs[0].endpoint} go to {reader.bus} at {reader.endpoint}.")
    try:
        return asyncio.run(_send(settings, reader))
    except BusNotReachedError as error:
        print(error, file=sys.stderr)
        return ExitCode.BUS_NOT_REACHED


async def _send(settings: BusRedriveSettings, reader: LogReader) -> int:
    """Deliver what ended writers left, until that is done or a signal comes."""
    endings = Endings()
    started = time.monotonic()
    cache_dir = settings.archive.cache_dir
    async with running_publisher(settings.publishing, settings.logs, cache_dir) as process:
        assert process is not None
        endings.hurry(process)
        sending = asyncio.create_task(wait_until_sent(settings.publishing, reader))
        stopping = asyncio.create_task(endings.wait())
        await asyncio.wait({sending, stopping}, return_when="FIRST_COMPLETED")
        is_done = sending.done()
        for task in (sending, stopping):
            task.cancel()
    publish.print_report(process, time.monotonic() - started)
    if not is_done:
        print("Stopped before the end. The next start sends the rest.", file=sys.stderr)
        return exit_code(process) or ExitCode.FAILURE
    return exit_code(process)


def _publish_settings(settings: BusRedriveSettings) -> PublishSettings:
    return PublishSettings(
        config=settings.config,
        logs=settings.logs,
        publish=PublishOptions(redrive=settings.redrive.path),
        archive=settings.archive,
        publishing=settings.publishing,
    )
