"""What the commands of the lake take."""

from dataclasses import dataclass
from pathlib import Path

from tardis_machine.app.settings.commands import CommandSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.lake.settings import LakeSettings, QueryFormat, SparkSettings
from tardis_machine.model.settings import REQUIRED, argument, group, option


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How long a job runs."""

    once: bool = option(default=False, help="Read what there is now and end.")
    metrics_port: int | None = option(
        None, "Answer /metrics on this port; none: do not.", minimum=1, maximum=65_535
    )


@dataclass(frozen=True, kw_only=True)
class LakeCommandSettings(CommandSettings):
    """What every command of the lake takes."""

    lake: LakeSettings = group(LakeSettings, "lake", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class LakeJobSettings(LakeCommandSettings):
    """What `lake ingest`, `lake build` and `lake run` take."""

    job: JobOptions = group(JobOptions, "lake-job", flag_prefix="")
    spark: SparkSettings = group(SparkSettings, "spark", flag_prefix="")
    publishing: PublishingSettings = group(PublishingSettings)


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """What is asked, and how the answer looks."""

    sql: str = argument(REQUIRED, "A select statement over tables such as silver.trades.")
    format: QueryFormat = option("table", "Form of the answer.")
    output: Path | None = option(None, "File for the answer; parquet needs one.")


@dataclass(frozen=True, kw_only=True)
class LakeQuerySettings(LakeCommandSettings):
    """What `lake query` takes."""

    query: QueryOptions = group(QueryOptions, "lake-query", flag_prefix="")


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """How strict the check is."""

    grace_seconds: float = option(
        300.0, "Events encoded later than this before now may still be on their way.", minimum=0
    )


@dataclass(frozen=True, kw_only=True)
class LakeCheckSettings(LakeCommandSettings):
    """What `lake check` takes."""

    check: CheckOptions = group(CheckOptions, "lake-check", flag_prefix="")
