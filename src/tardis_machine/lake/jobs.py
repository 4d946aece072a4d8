"""The jobs of the lake: ingest a bus, build Silver and Gold, or both.

Each step of bus -> Bronze -> Silver -> Gold is one streaming query. A job runs its queries
concurrently until it is stopped, or (`once`) one after another until each has read what is
available.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError
from prometheus_client import start_http_server
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.lake.buses import chosen_bus
from tardis_machine.lake.errors import LakeError, PythonStartError, query_error, spark_error
from tardis_machine.lake.progress import ProgressListener
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.lake.spark.python_workers import start_workers
from tardis_machine.lake.spark.session import open_session
from tardis_machine.lake.store.locks import locked
from tardis_machine.model.errors import SettingsError
from tardis_machine.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from tardis_machine.lake.queries import Queries

USED_LATER = ("tardis_machine.lake.queries", "pandas")
"""Modules that take long to import; pyspark and pyarrow use pandas."""
WATCH_SECONDS = 1
FOLLOW_SECONDS = 0.5
"""How often a stage looks for what the one before it in the same job has written."""
MAX_STARTS = 10
"""Starts of one query in a job; only a Python worker that starts too slowly is tried again."""

METRICS_HOST = "127.0.0.1"
LOG_FILE = "spark.log"
"""Log of Spark and its JVM, in the cache folder."""


class Stage(StrEnum):
    """One step from the bus to Gold; each is a streaming query."""

    INGEST = "ingest"
    REFINE = "refine"
    BUILD = "build"


SILVER_AND_GOLD = (Stage.REFINE, Stage.BUILD)
ALL = tuple(Stage)


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """Settings of one job."""

    spark: SparkSettings
    lake: LakeSettings
    publishing: PublishingSettings
    once: bool = False
    metrics_port: int | None = None
    restates: bool = False
    """Events may have gone from Silver, not only come."""


class Job:
    """Runs some stages of one lake."""

    def __init__(
        self,
        settings: JobSettings,
        stages: Sequence[Stage],
        say: Callable[[str], None],
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._stages = stages
        self._say = say
        self._stop = stop
        self._metrics = Metrics()
        self._listener = ProgressListener(self._metrics.lake, say)
        if settings.spark.remote is not None:
            # Each query needs its own session and the id of its run; Spark Connect has neither.
            raise SettingsError(
                f"--remote {settings.spark.remote}: Spark Connect is not supported by the jobs of "
                "the lake yet. Use --master with the URL of the cluster."
            )
        if Stage.INGEST in stages:
            chosen_bus(settings.publishing)

    def run(self) -> None:
        """Start Spark, and run until everything is read or the job is stopped."""
        is_once = self._settings.once
        # While the JVM starts, this process has nothing else to do.
        threading.Thread(target=lambda: [*map(import_module, USED_LATER)]).start()
        with open_session(
            self._settings.spark,
            profile="quick" if is_once else "throughput",
            log_path=self._settings.spark.cache_dir / LOG_FILE,
            writes_archive=is_once,
        ) as spark:
            start_workers(spark)
            self.run_in(spark)

    def run_in(self, spark: SparkSession) -> None:
        """Run in an existing session; the caller stops it."""
        # Several buses may be read at once; their queries only append to Bronze.
        stages = [stage for stage in self._stages if stage is not Stage.INGEST]
        with locked(self._settings.lake.root, stages):
            self.run_locked(spark)

    def run_locked(self, spark: SparkSession) -> None:
        """Run in an existing session, for a caller that keeps others from the lake."""
        from tardis_machine.lake.queries import Queries

        with self._serve_metrics(), failures_of_spark():
            queries = Queries(spark, self._settings.lake, self._listener)
            queries.register_tables()
            if self._settings.once:
                self._run_once(queries)
            else:
                self._run_until_stopped(queries)

    @contextmanager
    def _serve_metrics(self) -> Iterator[None]:
        """Serve /metrics, if a port is given."""
        if self._settings.metrics_port is None:
            yield
            return
        server, thread = start_http_server(
            self._settings.metrics_port, METRICS_HOST, registry=self._metrics.registry
        )
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def _run_once(self, queries: "Queries") -> None:
        # A query is made in a second or two of Spark's driver: while another one runs.
        with ThreadPoolExecutor(1) as pool:
            writers = {stage: pool.submit(self._writer, stage, queries) for stage in self._stages}
            for stage in self._stages:
                query = self._read_available(stage, writers[stage], queries)
                query.stop()
                self._report(query)

    def _read_available(
        self, stage: Stage, made: "Future[DataStreamWriter]", queries: "Queries"
    ) -> StreamingQuery:
        """Run a query until it has read what is available, or the job is stopped."""
        start, writer = 1, made.result()
        while True:
            query = writer.trigger(availableNow=True).start()
            with self._tried_again(start), _failures_of(query):
                while not self._stop.is_set() and not query.awaitTermination(WATCH_SECONDS):
                    pass
                return query
            start, writer = start + 1, self._writer(stage, queries)

    def _run_until_stopped(self, queries: "Queries") -> None:
        def start(stage: Stage) -> StreamingQuery:
            interval = f"{self._interval(stage)} seconds"
            return self._writer(stage, queries).trigger(processingTime=interval).start()

        starts = Counter(self._stages)
        running = {stage: start(stage) for stage in self._stages}
        try:
            while not self._stop.wait(WATCH_SECONDS):
                for stage, query in running.items():
                    with self._tried_again(starts[stage]):
                        _check(query)
                        continue
                    starts[stage] += 1
                    running[stage] = start(stage)
        finally:
            for query in running.values():
                query.stop()
                self._report(query)

    def _interval(self, stage: Stage) -> float:
        """Return the seconds between two batches of a stage."""
        seconds = self._settings.lake.trigger_seconds
        # The first one decides how often there is something new for the others.
        return seconds if stage is self._stages[0] else min(seconds, FOLLOW_SECONDS)

    @contextmanager
    def _tried_again(self, start: int) -> Iterator[None]:
        """Suppress the failure of a query that may be started once more."""
        try:
            yield
        except PythonStartError as error:
            if start >= MAX_STARTS:
                raise
            self._say(f"{error} Starting it again.")

    def _writer(self, stage: Stage, queries: "Queries") -> DataStreamWriter:
        if stage is Stage.REFINE:
            return queries.refine()
        if stage is Stage.BUILD:
            return queries.build(restates=self._settings.restates)
        return queries.ingest(self._settings.publishing)

    def _report(self, query: StreamingQuery) -> None:
        self._listener.wait_for_end(str(query.runId))
        self._listener.report(query.name)


def _check(query: StreamingQuery) -> None:
    """Raise the error of a query that stopped unexpectedly."""
    if not query.isActive:
        with _failures_of(query):
            query.awaitTermination()
        raise LakeError(f"{query.name} was stopped from outside of this job.")


@contextmanager
def failures_of_spark() -> Iterator[None]:
    """Raise a failure outside of all queries as an error of the lake with its reason."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise spark_error(error) from error
    except DeltaError as error:
        raise LakeError(str(error).partition("\n")[0]) from error


@contextmanager
def _failures_of(query: StreamingQuery) -> Iterator[None]:
    """Raise the failure of a query as an error of the lake with its name and reason."""
    try:
        yield
    except StreamingQueryException as error:
        raise query_error(query.name, error) from error
