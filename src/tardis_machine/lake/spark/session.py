"""Build the Spark session: local by default, an existing cluster by one flag."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from tardis_machine.lake.errors import LakeError
from tardis_machine.lake.settings import SparkSettings
from tardis_machine.lake.spark.class_archive import ClassArchive, archive_for
from tardis_machine.lake.spark.jars import find_jars, spark_home
from tardis_machine.lake.spark.java import find_java_home
from tardis_machine.model.errors import MissingExtraError

try:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession
except ModuleNotFoundError as exc:
    if exc.name != "pyspark":
        raise
    raise MissingExtraError(
        "'pyspark' is not installed. Run: pip install 'tardis-machine[lake]'"
    ) from exc

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
EXIT_SECONDS = 60

# What every session needs, wherever it runs.
SQL_PROPERTIES = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    # Rows of a task go to several partitions at once instead of being sorted first.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # A kill during the very first write leaves a temporary file, which is no reason not to start.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    # Half the work and size of the old default, and every engine prunes by it.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # DuckDB, Polars and Trino read tables without them.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
}
DELTA_PROPERTIES = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True)
class Profile:
    """How a session on this machine spends its CPU."""

    java_options: tuple[str, ...]
    properties: Mapping[str, str]


PROFILES = {
    # A third of the CPU until the first result: only the quick compiler, one collector thread, and
    # expressions that are interpreted rather than compiled. The code cache of the quick compiler is
    # small by default, and a full one stops all compiling.
    "quick": Profile(
        (
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-XX:ReservedCodeCacheSize=240m",
        ),
        {
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    ),
    "throughput": Profile(("-XX:+UseParallelGC",), {}),
}


@contextmanager
def open_session(
    settings: SparkSettings,
    *,
    profile: str = "throughput",
    log_path: Path | None = None,
    writes_archive: bool = False,
) -> Iterator[SparkSession]:
    """Start Spark, and end it with everything it started.

    Args:
        settings: Where Spark runs and with what.
        profile: Which profile `auto` stands for.
        log_path: File for what the JVM and its workers write; None: standard error.
        writes_archive: Whether a missing class archive is written; for sessions that do whole
            jobs. The JVM then outlives the session by the seconds this takes.
    """
    chosen = PROFILES[profile if settings.profile == "auto" else settings.profile]
    java_home = find_java_home(settings.cache_dir)
    jars = find_jars(settings, java_home)
    archive = _archive(settings, java_home, jars, chosen.java_options)
    writes_archive = writes_archive and archive is not None and not archive.is_complete
    archive_options = _archive_options(archive, writes=writes_archive)
    properties = _properties(settings, jars, chosen, archive_options)
    with _environment(JAVA_HOME=str(java_home), PYSPARK_PYTHON=sys.executable):
        gateway, spark = _start(properties, log_path)
    try:
        yield spark
    finally:
        spark.stop()
        _end_jvm(gateway, waits=not writes_archive)


def is_local(settings: SparkSettings) -> bool:
    """Say whether driver and executors are one JVM on this machine."""
    return settings.master.startswith("local") and not settings.master.startswith("local-cluster")


def _properties(
    settings: SparkSettings, jars: tuple[Path, ...], profile: Profile, archive_options: list[str]
) -> dict[str, str]:
    logging = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    return {
        **SQL_PROPERTIES,
        **(DELTA_PROPERTIES if jars else {}),
        **_place_properties(settings, jars),
        **profile.properties,
        "spark.driver.extraJavaOptions": " ".join(
            (*profile.java_options, *archive_options, logging)
        ),
        **settings.conf,
    }


def _place_properties(settings: SparkSettings, jars: tuple[Path, ...]) -> dict[str, str]:
    common = {
        "spark.app.name": "tardis-machine",
        "spark.master": settings.master,
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.driver_memory or default_memory(),
    }
    if not is_local(settings):
        return common | ({"spark.jars": ",".join(map(str, jars))} if jars else {})
    cores = str(os.cpu_count() or 2)
    return common | {
        # On the class path the archive covers them too; `spark.jars` has a loader of its own.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": cores,
        # One machine has nothing to adapt to, and planning every stage anew costs CPU.
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
    }


def default_memory() -> str:
    """Return a quarter of the machine's memory, from 1 to 8 GiB."""
    total_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return f"{min(max(total_mib // 4, 1024), 8192)}m"


def _archive_options(archive: ClassArchive | None, *, writes: bool) -> list[str]:
    if archive is None:
        return []
    if archive.is_complete:
        return archive.read_options()
    return archive.write_options() if writes else []


def _archive(
    settings: SparkSettings,
    java_home: Path,
    jars: tuple[Path, ...],
    jvm_options: tuple[str, ...],
) -> ClassArchive | None:
    if not is_local(settings):
        return None
    parts = (version("pyspark"), str(spark_home()), *map(str, jars), *jvm_options)
    return archive_for(settings.cache_dir, java_home, parts)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables that pyspark reads only from the environment, while it starts."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start(properties: Mapping[str, str], log_path: Path | None) -> tuple[Any, SparkSession]:
    conf = SparkConf(loadDefaults=False).setAll(list(properties.items()))
    with _opened(log_path) as log:
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stderr": log} if log else {}
            )
        except PySparkException as exc:
            hint = f" What it wrote is in {log_path}." if log_path else ""
            raise LakeError(f"Spark did not start: {exc}.{hint}") from exc
    context = SparkContext(gateway=gateway, conf=conf)
    context.setLogLevel("ERROR")
    return gateway, SparkSession(context)


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes] | None]:
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        yield file


def _end_jvm(gateway: Any, *, waits: bool) -> None:
    """Let the JVM end and forget it, so that a next session starts its own."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    if waits:
        gateway.proc.wait(EXIT_SECONDS)
    SparkContext._gateway = None
    SparkContext._jvm = None
