"""All settings, composed: which groups each command takes, and under which names."""

from dataclasses import dataclass
from pathlib import Path

from tardis_machine.model.settings import REQUIRED, argument, group, option
from tardis_machine.server.settings import ServerSettings
from tardis_machine.sinks.registry import PublishingSettings
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.sources.simulator.settings import SimulatorSettings
from tardis_machine.telemetry.logs import LogSettings


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """What every command takes."""

    config: Path | None = option(None, "Read settings from this TOML file.", metavar="file")
    logs: LogSettings = group(LogSettings)


@dataclass(frozen=True, kw_only=True)
class ServeSettings(CommandSettings):
    """Everything the server takes."""

    clear_cache: bool = option(
        default=False, help="Remove cached feeds at start.", only_true_is_on=True
    )
    server: ServerSettings = group(ServerSettings)
    archive: ArchiveSettings = group(ArchiveSettings)
    publishing: PublishingSettings = group(PublishingSettings)


@dataclass(frozen=True, kw_only=True)
class SimulateSettings(CommandSettings):
    """What the simulator writes."""

    simulator: SimulatorSettings = group(SimulatorSettings, "simulate", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class NormalizeOptions:
    """Which recorded lines become which records."""

    exchange: str = option(REQUIRED, "Exchange the lines come from.")
    data_types: tuple[str, ...] = option(
        REQUIRED, "Data types to produce, such as trade,book_change,quote_1s."
    )
    symbols: tuple[str, ...] = option((), "Symbols to keep; none: all.")
    with_disconnects: bool = option(default=False, help="Also write disconnect messages.")
    files: tuple[Path, ...] = argument(
        (), "Recorded lines, plain, .gz or .zst; none: standard input."
    )


@dataclass(frozen=True, kw_only=True)
class NormalizeSettings(CommandSettings):
    """What `normalize` takes."""

    normalize: NormalizeOptions = group(NormalizeOptions, "normalize", flag_prefix="")
