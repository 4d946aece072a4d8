"""Every command, one line each: name, settings, the module whose `run` does it."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tardis_machine.model.errors import MissingExtraError

if TYPE_CHECKING:
    from tardis_machine.app.settings.commands import CommandSettings


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
    settings_name: str
    """Class of its settings, with its module in `app.settings`: `commands.ServeSettings`."""
    module: str
    """Module of this package, imported when the command runs, so that others start fast."""

    needs: tuple[str, ...] = ()
    """Modules of the extra `lake` that the command cannot do without."""

    @property
    def settings(self) -> "type[CommandSettings]":
        """Return the class of its settings."""
        module, _, name = self.settings_name.partition(".")
        found = importlib.import_module(f"tardis_machine.app.settings.{module}")
        settings: type[CommandSettings] = getattr(found, name)
        return settings

    @property
    def run(self) -> Callable[[Any], int]:
        """Return the function that takes the loaded settings and returns an exit code.

        Raises:
            MissingExtraError: the extra `lake` is not installed.
        """
        missing = [name for name in self.needs if find_spec(name) is None]
        if missing:
            raise MissingExtraError(
                f"`tardis-machine {self.name}` needs {', '.join(missing)}. "
                "Run: pip install 'tardis-machine[lake]'"
            )
        module = importlib.import_module(f"tardis_machine.cli.{self.module}")
        run: Callable[[Any], int] = module.run
        return run


_QUERY_MODULES = ("deltalake", "duckdb", "pyarrow")
_JOB_MODULES = (*_QUERY_MODULES, "delta", "ptars", "pyspark")

COMMANDS = (
    Command(
        "serve",
        "Serve replays and live streams over HTTP and WebSocket.",
        "commands.ServeSettings",
        "serve",
    ),
    Command(
        "publish",
        "Publish replays to event buses.",
        "commands.PublishSettings",
        "publish",
    ),
    Command(
        "bus status",
        "Show what waits for each bus: backlogs, parked events, dead letters, quarantine.",
        "bus_commands.BusStatusSettings",
        "bus.status",
    ),
    Command(
        "bus redrive",
        "Send a stranded backlog, dead letters or stored events to the buses as configured now.",
        "bus_commands.BusRedriveSettings",
        "bus.redrive",
    ),
    Command(
        "bus discard",
        "Give up a stranded backlog, or the parked events of a destination.",
        "bus_commands.BusDiscardSettings",
        "bus.discard",
    ),
    Command(
        "simulate",
        "Write sample data in the native formats of exchanges, or play them live (--serve).",
        "simulate_command.SimulateSettings",
        "simulate",
    ),
    Command(
        "normalize",
        "Convert recorded lines to normalized NDJSON, from files or standard input.",
        "commands.NormalizeSettings",
        "normalize",
    ),
    Command(
        "lake ingest",
        "Append the events of a bus to Bronze.",
        "lake_commands.LakeJobSettings",
        "lake.ingest",
        _JOB_MODULES,
    ),
    Command(
        "lake build",
        "Build Silver and Gold from Bronze.",
        "lake_commands.LakeJobSettings",
        "lake.build",
        _JOB_MODULES,
    ),
    Command(
        "lake run",
        "Run ingest and build in one process.",
        "lake_commands.LakeJobSettings",
        "lake.run",
        _JOB_MODULES,
    ),
    Command(
        "lake rebuild",
        "Make Silver and Gold of a range anew from Bronze, with the newest copy of each event.",
        "lake_commands.LakeRebuildSettings",
        "lake.rebuild",
        _JOB_MODULES,
    ),
    Command(
        "lake instruments",
        "Fill silver.instruments from the instrument metadata of the data API.",
        "lake_commands.LakeInstrumentsSettings",
        "lake.instruments",
        _JOB_MODULES,
    ),
    Command(
        "lake query",
        "Query the tables with SQL.",
        "lake_commands.LakeQuerySettings",
        "lake.query",
        _QUERY_MODULES,
    ),
    Command(
        "lake tables",
        "List the tables with rows, files, size and last change.",
        "lake_commands.LakeCommandSettings",
        "lake.tables",
        _QUERY_MODULES,
    ),
    Command(
        "lake check",
        "Run data quality checks on the tables.",
        "lake_commands.LakeCheckSettings",
        "lake.check",
        _QUERY_MODULES,
    ),
    Command(
        "demo",
        "Run an offline demo with simulated data.",
        "commands.DemoSettings",
        "demo",
        _JOB_MODULES,
    ),
    Command(
        "version",
        "Print the version, and whether compiled code runs.",
        "commands.CommandSettings",
        "version",
    ),
)

DEFAULT_COMMAND = COMMANDS[0]
