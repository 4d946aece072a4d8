"""Settings of the lake commands."""

from dataclasses import dataclass
from pathlib import Path

from tardis_machine.app.settings.commands import CommandSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.lake.settings import LakeSettings, QueryFormat, SparkSettings
from tardis_machine.model.settings import REQUIRED, argument, group, option


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How long a job runs."""

    once: bool = option(default=False, help="Read what is available now, then stop.")
    metrics_port: int | None = option(
        None, "Serve /metrics on this port (default: off).", minimum=1, maximum=65_535
    )


@dataclass(frozen=True, kw_only=True)
class LakeCommandSettings(CommandSettings):
    """Settings of every lake command."""

    lake: LakeSettings = group(LakeSettings, "lake", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class LakeJobSettings(LakeCommandSettings):
    """Settings of `lake ingest`, `lake build` and `lake run`."""

    job: JobOptions = group(JobOptions, "lake-job", flag_prefix="")
    spark: SparkSettings = group(SparkSettings, "spark", flag_prefix="")
    publishing: PublishingSettings = group(PublishingSettings)


@dataclass(frozen=True, kw_only=True)
class RebuildOptions:
    """What is made anew."""

    start: str = option(
        REQUIRED, "Start of the range, by local time, UTC.", aliases=("from",), metavar="time"
    )
    end: str = option(
        REQUIRED, "End of the range, UTC (exclusive).", aliases=("to",), metavar="time"
    )
    exchange: str | None = option(None, "Exchange to rebuild (default: all).")
    table: str | None = option(
        None, "Silver table to rebuild, such as silver.trades (default: all); Gold follows."
    )


@dataclass(frozen=True, kw_only=True)
class LakeRebuildSettings(LakeCommandSettings):
    """Settings of `lake rebuild`."""

    rebuild: RebuildOptions = group(RebuildOptions, "lake-rebuild", flag_prefix="")
    spark: SparkSettings = group(SparkSettings, "spark", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class InstrumentsOptions:
    """Which exchanges the data API is asked for, and how."""

    exchange: tuple[str, ...] = option((), "Exchanges to ask for (default: those in the lake).")
    endpoint: str = option(
        "https://api.tardis.dev/v1", "Base URL of the data API.", fallback_env="TM_ENDPOINT"
    )
    api_key: str | None = option(
        None,
        "API key for the data API; instrument metadata needs one.",
        secret=True,
        fallback_env="TM_API_KEY",
    )
    http_proxy: str | None = option(
        None,
        "HTTP proxy for requests to the data API.",
        metavar="http://user:pass@host:port",
        secret=True,
        fallback_env="HTTP_PROXY",
    )
    offline: bool = option(
        default=False, help="Use the answers of an earlier run; never use the network."
    )


@dataclass(frozen=True, kw_only=True)
class LakeInstrumentsSettings(LakeCommandSettings):
    """Settings of `lake instruments`."""

    instruments: InstrumentsOptions = group(InstrumentsOptions, "lake-instruments", flag_prefix="")
    spark: SparkSettings = group(SparkSettings, "spark", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The query, and the format of its result."""

    sql: str = argument(REQUIRED, "A select statement over tables such as silver.trades.")
    format: QueryFormat = option("table", "Format of the result.")
    as_of: str | None = option(
        None,
        "Query the tables as they were: a version of the one table, or a time.",
        metavar="version|time",
    )
    output: Path | None = option(None, "File to write the result to; required for parquet.")


@dataclass(frozen=True, kw_only=True)
class LakeQuerySettings(LakeCommandSettings):
    """Settings of `lake query`."""

    query: QueryOptions = group(QueryOptions, "lake-query", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """How strict the check is."""

    grace_seconds: float = option(
        300.0,
        "Ignore events encoded in the last N seconds; they may still be in flight.",
        minimum=0,
    )


@dataclass(frozen=True, kw_only=True)
class LakeCheckSettings(LakeCommandSettings):
    """Settings of `lake check`."""

    check: CheckOptions = group(CheckOptions, "lake-check", flag_prefix="")
