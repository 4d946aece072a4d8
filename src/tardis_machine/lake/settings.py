"""Settings of the lake: where it is, and how its jobs run Spark."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tardis_machine.model.settings import computed_option, option
from tardis_machine.model.user_folders import cache_folder

QueryFormat = Literal["table", "csv", "json", "parquet"]

_NEXT_PROPERTY = re.compile(r",(?=\s*[\w.]+=)")


def parse_properties(text: str) -> dict[str, str]:
    """Read Spark properties: `a=b,c=d` or a JSON object."""
    if text.lstrip().startswith("{"):
        return {str(key): str(value) for key, value in json.loads(text).items()}
    properties = {}
    for entry in filter(None, _NEXT_PROPERTY.split(text)):
        key, equals, value = entry.strip().partition("=")
        if not equals:
            # Not what it is: it may be part of a secret.
            raise ValueError("Invalid conf: expected key=value entries or a JSON object.")
        properties[key] = value
    return properties


@dataclass(frozen=True, kw_only=True)
class SparkSettings:
    """How the jobs of the lake run Spark."""

    master: str = option("local[*]", "Spark master: this machine, or the URL of a cluster.")
    remote: str | None = option(
        None, "Spark Connect server. Not supported by the jobs yet.", metavar="sc://host:port"
    )
    conf: Mapping[str, str] = option(
        {},
        "Additional Spark properties; they override those of the jobs.",
        metavar="key=value,…",
        parse=parse_properties,
        secret=True,
    )
    jars: str = option(
        "auto",
        "Jars for Delta and Kafka: auto (download once), none (the cluster has them) or a folder.",
        metavar="auto|none|folder",
    )
    ivy_settings: Path | None = option(
        None, "Ivy settings file, for example to download the jars from a mirror."
    )
    driver_memory: str | None = option(
        None, "Heap of the driver, such as 4g (default: a quarter of the memory, 1 to 8 GiB)."
    )
    profile: Literal["auto", "quick", "throughput"] = option(
        "auto",
        "quick starts faster, throughput runs faster; auto is quick only with --once.",
    )
    cache_dir: Path = computed_option(
        cache_folder,
        "Folder for downloaded jars, JVM class archives and spark.log.",
        shown_default="~/.cache/tardis-machine",
    )


@dataclass(frozen=True, kw_only=True)
class LakeSettings:
    """Where the tables are, and how large a batch is."""

    root: str = option(
        "lake", "Root of all tables: a folder, or a URI that Spark can write to.", aliases=("lake",)
    )
    catalog: str | None = option(None, "Spark catalog to register the tables in (default: none).")
    trigger_seconds: float = option(
        5.0,
        "Trigger interval: seconds from the start of one batch of the first stage to the next; "
        "stages after it in the same job follow it.",
        minimum=0,
    )
    max_batch_bytes: int = option(128 << 20, "Most bytes of Bronze per batch.", minimum=1 << 20)
    max_batch_events: int = option(1_000_000, "Most events of the bus per batch.", minimum=1)
    max_event_skew_seconds: float = option(
        604_800.0,
        "Reject events whose exchange time is further from the local time; 0: no limit.",
        minimum=0,
    )
    late_exchanges: tuple[str, ...] = option(
        (), "Exchanges without that limit, because they send events with old times."
    )
    fail_on_data_loss: bool = option(
        True, "Stop when the bus deleted events before they were read; false: log and continue."
    )
