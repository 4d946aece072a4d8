"""All settings, composed: which groups each command takes, and under which names."""

from dataclasses import dataclass
from pathlib import Path

from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.model.settings import REQUIRED, argument, group, option
from tardis_machine.server.settings import ServerSettings
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
class PublishOptions:
    """What to publish: one replay by flags, several by a file, or events once more."""

    exchange: str | None = option(None, "Exchange to replay.")
    symbols: tuple[str, ...] = option((), "Symbols to replay; none: all.")
    data_types: tuple[str, ...] = option(
        (), "Data types to publish, such as trade,book_change,quote_1s."
    )
    start: str | None = option(None, "First minute, in UTC.", aliases=("from",), metavar="time")
    end: str | None = option(None, "The minute after the last.", aliases=("to",), metavar="time")
    job: str | None = option(
        None,
        "Name of the job: started again under it, it continues after its last settled minute.",
        pattern=r"[A-Za-z0-9._-]{1,64}",
    )
    redrive: Path | None = option(
        None, "Send the events of a dead-letter file, a segment or a stream's directory once more."
    )
    file: Path | None = argument(None, "TOML file with a [[replay]] table for each replay.")


@dataclass(frozen=True, kw_only=True)
class PublishSettings(CommandSettings):
    """What `publish` takes."""

    publish: PublishOptions = group(PublishOptions, "publish", flag_prefix="")
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


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """How long the tour is, and where it leaves its files."""

    dir: Path = option(Path("demo"), "Folder for the data of the tour; kept afterwards.")
    minutes: int = option(3, "Minutes of market data to simulate.", minimum=1, maximum=59)


@dataclass(frozen=True, kw_only=True)
class DemoSettings(CommandSettings):
    """What the tour takes."""

    demo: DemoOptions = group(DemoOptions, "demo", flag_prefix="")
