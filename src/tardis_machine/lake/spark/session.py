"""Start the Spark session: local by default, on a cluster with --master."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession
except ModuleNotFoundError as exc:
    if exc.name not in {"pyspark", "py4j"}:
        raise
    raise MissingExtraError(
        "'pyspark' is not installed. Run: pip install 'tardis-machine[lake]'"
    ) from exc

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
EXIT_SECONDS = 60

# Properties of every session, local or on a cluster.
SQL_PROPERTIES = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    # A task writes to several partitions at once instead of sorting its rows first.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # A kill during the first write leaves a temporary file there, which does no harm.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    # Half the CPU and size of the INT96 default, and every engine can prune by it.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # So that DuckDB, Polars and Trino can read the tables.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
}
DELTA_PROPERTIES = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Properties with which expressions are interpreted instead of compiled."""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"


@dataclass(frozen=True)
class Profile:
    """JVM options and Spark properties of a local session."""

    java_options: tuple[str, ...]
    properties: Mapping[str, str]


PROFILES = {
    # A third of the CPU until the first result: only the C1 compiler, one GC thread, and
    # expressions that are interpreted instead of compiled. The default code cache of C1 is small,
    # and a full one stops all compilation.
    "quick": Profile(
        (
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-XX:ReservedCodeCacheSize=240m",
            # Otherwise the space of classes grows by one full collection after another.
            "-XX:MetaspaceSize=256m",
        ),
        INTERPRETED,
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
    """Start Spark; stop it and its JVM at the end.

    Args:
        settings: Master, jars and properties.
        profile: The profile to use for `auto`.
        log_path: File for the output of the JVM and its workers; None: standard error.
        writes_archive: Whether to write a missing class archive; for sessions that run whole
            jobs. The JVM then exits some seconds after the session.
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
        # The class archive covers the class path, but not `spark.jars` with its own class loader.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": cores,
        # On one machine adaptive execution gains nothing, and re-planning every stage costs CPU.
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
        # Every small table that is broadcast, sorted or grouped takes a page: 64 MB by default,
        # which is most of what a short job allocates.
        "spark.buffer.pageSize": "2m",
        # The default starts a process for every rename, to ask whether a file is a symbolic link.
        "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}"
        ".FileSystemBasedCheckpointFileManager",
        "spark.python.daemon.module": "tardis_machine.lake.daemon",
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
    """Set environment variables while pyspark starts; it takes them from nowhere else."""
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
            hint = f" See {log_path}." if log_path else ""
            raise LakeError(f"Spark did not start: {exc}.{hint}") from exc
    # It prints the traces of every batch that fails or is stopped; a query raises its failure.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with _interrupts_kept():
        context = SparkContext(gateway=gateway, conf=conf)
    context.setLogLevel("ERROR")
    _skip_search(context)
    return gateway, SparkSession(context)


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Keep what the process does on Ctrl-C; Spark would cancel its jobs and raise instead."""
    before = signal.getsignal(signal.SIGINT)
    yield
    # Elsewhere neither Spark nor we may set it.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _skip_search(context: SparkContext) -> None:
    """Keep Spark from searching installed packages for data sources, which takes two processes.

    The jobs register theirs by name.
    """
    jvm: Any = context._jvm
    # Not part of Spark's API: where it is missing, the search takes place.
    with suppress(Py4JError, TypeError, AttributeError):
        package = jvm.org.apache.spark.sql.execution.datasources
        manager = getattr(getattr(package, "DataSourceManager$"), "MODULE$")
        getattr(manager, "dataSourceBuilders_$eq")(
            jvm.scala.Option.apply(jvm.PythonUtils.toScalaMap({}))
        )


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes] | None]:
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        yield file


def _end_jvm(gateway: Any, *, waits: bool) -> None:
    """Stop the JVM, so that the next session starts a new one."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    if waits:
        gateway.proc.wait(EXIT_SECONDS)
    SparkContext._gateway = None
    SparkContext._jvm = None
