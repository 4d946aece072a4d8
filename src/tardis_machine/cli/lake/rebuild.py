"""`tardis-machine lake rebuild`: Silver and Gold of a range anew from Bronze."""

import signal
import sys
import threading

from tardis_machine.app.settings.lake_commands import LakeRebuildSettings, RebuildOptions
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.cli.commands import ExitCode
from tardis_machine.cli.lake.existing import existing_tables
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.lake.jobs import JobSettings
from tardis_machine.lake.rebuild import Rebuild, RebuildRange
from tardis_machine.lake.store.times import Times
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.columns import by_name
from tardis_machine.lake.tables.silver import EVENT_TABLES
from tardis_machine.model.errors import SettingsError, UnknownNameError
from tardis_machine.model.time import parse_instant


def run(settings: LakeRebuildSettings) -> int:
    """Rebuild until done or stopped."""
    wanted = read_range(settings.rebuild)
    existing_tables(settings.lake.root)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    job = JobSettings(spark=settings.spark, lake=settings.lake, publishing=PublishingSettings())
    if Rebuild(job, wanted, _say, stop).run():
        return ExitCode.OK
    _say("Stopped before the end. Run the same command again.")
    return ExitCode.FAILURE


def read_range(options: RebuildOptions) -> RebuildRange:
    """Return what is to be made anew; SettingsError when it cannot be told."""
    start_us, end_us = _instant("from", options.start), _instant("to", options.end)
    if start_us >= end_us:
        raise SettingsError(f"--to {options.end} must be after --from {options.start}.")
    if options.exchange is not None and options.exchange not in REGISTRY:
        raise UnknownNameError("exchange", options.exchange, REGISTRY)
    return RebuildRange(
        times=Times(start_us, end_us - 1),
        exchange=options.exchange,
        tables=EVENT_TABLES if options.table is None else (_table(options.table),),
    )


def _instant(name: str, text: str) -> int:
    time_us = parse_instant(text)
    if time_us is None:
        raise SettingsError(f"--{name} must be a UTC time such as 2024-03-01T00:05, not {text!r}.")
    return time_us


def _table(name: str) -> Table:
    tables = by_name(EVENT_TABLES)
    if name not in tables:
        raise UnknownNameError("table", name, tables)
    return tables[name]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
