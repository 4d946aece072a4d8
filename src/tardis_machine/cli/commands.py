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
    """What the process tells its caller."""

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
    Command("serve", "Replay and stream over HTTP and WebSocket.", ServeSettings, "serve"),
    Command(
        "publish",
        "Publish replays to event buses, without a client.",
        PublishSettings,
        "publish",
    ),
    Command(
        "simulate",
        "Write deterministic sample data, in each venue's own format.",
        SimulateSettings,
        "simulate",
    ),
    Command(
        "normalize",
        "Turn recorded lines into normalized NDJSON, from files or a pipe.",
        NormalizeSettings,
        "normalize",
    ),
    Command("lake ingest", "Append the events of a bus to Bronze.", LakeJobSettings, "lake.ingest"),
    Command("lake build", "Refine Bronze to Silver and Gold.", LakeJobSettings, "lake.build"),
    Command("lake run", "Ingest and build, in one process.", LakeJobSettings, "lake.run"),
    Command("lake query", "Ask the tables by SQL.", LakeQuerySettings, "lake.query"),
    Command("lake tables", "Say what the tables hold.", LakeCommandSettings, "lake.tables"),
    Command("lake check", "Say whether the tables are sound.", LakeCheckSettings, "lake.check"),
    Command("demo", "See it work, offline, on simulated data.", DemoSettings, "demo"),
    Command("version", "Print the version.", CommandSettings, "version"),
)

DEFAULT_COMMAND = COMMANDS[0]
