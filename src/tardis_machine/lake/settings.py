"""What the lake can be told: where it is, and how it gets Spark."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tardis_machine.model.settings import computed_option, option

QueryFormat = Literal["table", "csv", "json", "parquet"]

_NEXT_PROPERTY = re.compile(r",(?=\s*[\w.]+=)")


def default_cache_dir() -> Path:
    """Return the folder for jars and class archives, shared by all lakes of a user."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tardis-machine"


def parse_properties(text: str) -> dict[str, str]:
    """Read Spark properties: `a=b,c=d` or a JSON object."""
    if text.lstrip().startswith("{"):
        return {str(key): str(value) for key, value in json.loads(text).items()}
    properties = {}
    for entry in filter(None, _NEXT_PROPERTY.split(text)):
        key, equals, value = entry.strip().partition("=")
        if not equals:
            raise ValueError(f'Invalid conf entry "{entry}". Expected key=value.')
        properties[key] = value
    return properties


@dataclass(frozen=True, kw_only=True)
class SparkSettings:
    """How the lake gets its Spark session."""

    master: str = option("local[*]", "Spark master: this machine, or the URL of a cluster.")
    remote: str | None = option(
        None, "Spark Connect server; the jobs refuse it for now.", metavar="sc://host:port"
    )
    conf: Mapping[str, str] = option(
        {}, "Further Spark properties.", metavar="key=value,…", parse=parse_properties
    )
    jars: str = option(
        "auto",
        "Jars for Delta and Kafka. auto: downloaded once; none: the cluster has them; or a folder.",
        metavar="auto|none|folder",
    )
    ivy_settings: Path | None = option(
        None, "Ivy settings file that names a mirror to download the jars from."
    )
    driver_memory: str | None = option(
        None, "Heap of the driver, such as 4g; by default a quarter of the machine, 1 to 8 GiB."
    )
    profile: Literal["auto", "quick", "throughput"] = option(
        "auto", "quick starts fastest, throughput runs fastest; auto chooses by the work there is."
    )
    cache_dir: Path = computed_option(
        default_cache_dir,
        "Folder for downloaded jars and class archives.",
        shown_default="~/.cache/tardis-machine",
    )


@dataclass(frozen=True, kw_only=True)
class LakeSettings:
    """Where the tables are, and how the jobs cut their work."""

    root: str = option(
        "lake", "Root of all tables: a folder or a URI that Spark knows.", aliases=("lake",)
    )
    catalog: str | None = option(None, "Catalog that the tables are registered in, if any.")
    trigger_seconds: float = option(5.0, "Pause between the batches of a running job.", minimum=0)
    max_batch_bytes: int = option(
        128 << 20, "Largest batch that is read from the bus or from Bronze.", minimum=1 << 20
    )
    max_batch_events: int = option(
        1_000_000, "Largest batch of a bus that counts events, not bytes.", minimum=1
    )
    fail_on_data_loss: bool = option(
        True, "Stop when the bus no longer holds events that were not read; false: log and go on."
    )
