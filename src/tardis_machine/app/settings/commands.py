"""All settings, composed: which groups each command takes, and under which names."""

from dataclasses import dataclass
from pathlib import Path

from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import REQUIRED, argument, group, option
from tardis_machine.server.settings import ServerSettings
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.recording.settings import RecordSettings
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.logs import LogSettings


def check_directories(archive: ArchiveSettings, recording: RecordSettings) -> None:
    """Refuse to record into the cache: what others recorded and what we do must not mix."""
    record = recording.record
    if record is not None and record.resolve() == archive.cache_dir.resolve():
        raise SettingsError(f"record must be another directory than cache_dir, got {record} twice.")


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """Options of every command."""

    config: Path | None = option(None, "TOML file with settings.", metavar="file")
    logs: LogSettings = group(LogSettings)


@dataclass(frozen=True, kw_only=True)
class ServeSettings(CommandSettings):
    """Settings of `serve`."""

    clear_cache: bool = option(
        default=False, help="Delete the slice cache at start.", only_true_is_on=True
    )
    server: ServerSettings = group(ServerSettings)
    archive: ArchiveSettings = group(ArchiveSettings)
    live: LiveSettings = group(LiveSettings)
    recording: RecordSettings = group(RecordSettings)
    publishing: PublishingSettings = group(PublishingSettings)

    def __post_init__(self) -> None:
        check_directories(self.archive, self.recording)


@dataclass(frozen=True, kw_only=True)
class PublishOptions:
    """What to publish: a replay or a live stream by flags, several by a file, or events again."""

    stream: bool = option(
        default=False,
        help="Publish what the exchange sends now, until stopped, instead of a replay.",
    )
    exchange: str | None = option(None, "Exchange to replay or to stream from.")
    symbols: tuple[str, ...] = option((), "Symbols (default: all; most live feeds need them).")
    data_types: tuple[str, ...] = option(
        (), "Data types to publish, such as trade,book_change,quote_1s."
    )
    start: str | None = option(
        None, "Start of the replay, UTC (inclusive).", aliases=("from",), metavar="time"
    )
    end: str | None = option(
        None, "End of the replay, UTC (exclusive).", aliases=("to",), metavar="time"
    )
    job: str | None = option(
        None,
        "Job name; a job started again under its name resumes after its last completed minute.",
        pattern=r"[A-Za-z0-9._-]{1,64}",
    )
    no_warm_up: bool = option(
        default=False,
        help=(
            "Begin to read at the start of the replay, not at 00:00 UTC of its day: faster, but "
            "books, tickers and computed types may lack what came before."
        ),
    )
    redrive: Path | None = option(
        None,
        "Send events again from a dead-letter file, a segment, or a directory of either.",
    )
    file: Path | None = argument(
        None, "TOML file with one [[replay]] table per replay, or one [[stream]] per live stream."
    )


@dataclass(frozen=True, kw_only=True)
class PublishSettings(CommandSettings):
    """Settings of `publish`."""

    publish: PublishOptions = group(PublishOptions, "publish", flag_prefix="")
    archive: ArchiveSettings = group(ArchiveSettings)
    live: LiveSettings = group(LiveSettings)
    recording: RecordSettings = group(RecordSettings)
    publishing: PublishingSettings = group(PublishingSettings)

    def __post_init__(self) -> None:
        check_directories(self.archive, self.recording)


@dataclass(frozen=True, kw_only=True)
class NormalizeOptions:
    """What to normalize."""

    exchange: str = option(REQUIRED, "Exchange of the recorded lines.")
    data_types: tuple[str, ...] = option(
        REQUIRED, "Data types to produce, such as trade,book_change,quote_1s."
    )
    symbols: tuple[str, ...] = option((), "Symbols to keep (default: all).")
    with_disconnects: bool = option(default=False, help="Also write disconnect messages.")
    files: tuple[Path, ...] = argument(
        (), "Files of recorded lines: plain, .gz or .zst (default: standard input)."
    )


@dataclass(frozen=True, kw_only=True)
class NormalizeSettings(CommandSettings):
    """Settings of `normalize`."""

    normalize: NormalizeOptions = group(NormalizeOptions, "normalize", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Length and output directory of the demo."""

    dir: Path = option(Path("demo"), "Directory for the data of the demo; it is kept.")
    minutes: int = option(3, "Minutes of market data to simulate.", minimum=1, maximum=59)


@dataclass(frozen=True, kw_only=True)
class DemoSettings(CommandSettings):
    """Settings of `demo`."""

    demo: DemoOptions = group(DemoOptions, "demo", flag_prefix="")
