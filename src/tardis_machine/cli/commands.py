"""Every command, one line each: name, settings, the module whose `run` does it."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tardis_machine.app.settings.commands import (
    CommandSettings,
    DemoSettings,
    NormalizeSettings,
    PublishSettings,
    ServeSettings,
    SimulateSettings,
)
from tardis_machine.app.settings.lake_commands import (
    LakeCheckSettings,
    LakeCommandSettings,
    LakeJobSettings,
    LakeQuerySettings,
)


class ExitCode(IntEnum):
    """Exit codes of the process."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    BUS_NOT_REACHED = 3
    EVENTS_LOST = 4


@dataclass(frozen=True)
class Command:
    """One command of `tardis-machine`; its name may have two words, such as `lake query`."""

    name: str
    summary: str
    settings: type[CommandSettings]
    module: str
    """Module of this package, imported when the command runs, so that others start fast."""

    @property
    def run(self) -> Callable[[Any], int]:
        """Return the function that takes the loaded settings and returns an exit code."""
        module = importlib.import_module(f"tardis_machine.cli.{self.module}")
        run: Callable[[Any], int] = module.run
        return run


COMMANDS = (
    Command(
        "serve", "Serve replays and live streams over HTTP and WebSocket.", ServeSettings, "serve"
    ),
    Command(
        "publish",
        "Publish replays to event buses.",
        PublishSettings,
        "publish",
    ),
    Command(
        "simulate",
        "Write deterministic sample data in the native format of each exchange.",
        SimulateSettings,
        "simulate",
    ),
    Command(
        "normalize",
        "Convert recorded lines to normalized NDJSON, from files or standard input.",
        NormalizeSettings,
        "normalize",
    ),
    Command("lake ingest", "Append the events of a bus to Bronze.", LakeJobSettings, "lake.ingest"),
    Command("lake build", "Build Silver and Gold from Bronze.", LakeJobSettings, "lake.build"),
    Command("lake run", "Run ingest and build in one process.", LakeJobSettings, "lake.run"),
    Command("lake query", "Query the tables with SQL.", LakeQuerySettings, "lake.query"),
    Command(
        "lake tables",
        "List the tables with rows, files, size and last change.",
        LakeCommandSettings,
        "lake.tables",
    ),
    Command(
        "lake check", "Run data quality checks on the tables.", LakeCheckSettings, "lake.check"
    ),
    Command("demo", "Run an offline demo with simulated data.", DemoSettings, "demo"),
    Command("version", "Print the version.", CommandSettings, "version"),
)

DEFAULT_COMMAND = COMMANDS[0]
