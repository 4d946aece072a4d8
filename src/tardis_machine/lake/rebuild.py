"""Silver and Gold of a range made anew from Bronze, day by day and table by table."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tardis_machine.lake.errors import LakeError
from tardis_machine.lake.jobs import (
    LOG_FILE,
    SILVER_AND_GOLD,
    Job,
    JobSettings,
    Stage,
    failures_of_spark,
)
from tardis_machine.lake.silver.limits import EventLimits
from tardis_machine.lake.silver.restate import Restatement, has_events, restate
from tardis_machine.lake.spark.session import open_session
from tardis_machine.lake.store.changes import DELETE, INSERT, UPDATE
from tardis_machine.lake.store.locks import locked
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.store.times import Times
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.silver import EVENT_TABLES
from tardis_machine.model.time import DAY_US, us_text


@dataclass(frozen=True, kw_only=True)
class RebuildRange:
    """What is made anew."""

    times: Times
    """Local times."""
    exchange: str | None = None
    """None: all."""
    tables: Sequence[Table] = EVENT_TABLES
    """Tables of Silver; Gold follows."""

    def parts(self) -> Iterator[Restatement]:
        """Yield the tables of each UTC day."""
        first_us, last_us = self.times
        for day_us in range(first_us - first_us % DAY_US, last_us + 1, DAY_US):
            times = Times(max(first_us, day_us), min(last_us, day_us + DAY_US - 1))
            for table in self.tables:
                yield Restatement(table, times, self.exchange)


class Rebuild:
    """Makes a range anew; it can be stopped or killed at any time, and then be started again.

    Args:
        settings: Of the lake and of Spark.
        wanted: What is made anew.
        say: Takes lines of progress.
        stop: Set to end it before the next table.
    """

    def __init__(
        self,
        settings: JobSettings,
        wanted: RebuildRange,
        say: Callable[[str], None],
        stop: threading.Event,
    ) -> None:
        self._settings = replace(settings, once=True, restates=True)
        self._wanted = wanted
        self._say = say
        self._stop = stop

    def run(self) -> bool:
        """Start Spark and rebuild; return whether it came to its end."""
        spark = self._settings.spark
        log_path = spark.cache_dir / LOG_FILE
        with open_session(spark, profile="throughput", log_path=log_path) as session:
            return self.run_in(session)

    def run_in(self, spark: SparkSession) -> bool:
        """Rebuild in an existing session; return whether it came to its end.

        Raises:
            LakeInUseError: another job writes Silver or Gold.
        """
        with locked(self._settings.lake.root, SILVER_AND_GOLD):
            return self._run(spark)

    def _run(self, spark: SparkSession) -> bool:
        lake = self._settings.lake
        store = Store(spark, lake.root, lake.catalog)
        with failures_of_spark():
            parts = [part for part in self._wanted.parts() if has_events(store, part)]
            if not parts:
                first, last = map(us_text, self._wanted.times)
                raise LakeError(
                    f"bronze.events in {lake.root} has no events of these tables between {first} "
                    f"and {last} (local time), so there is nothing to rebuild from."
                )
            limits = EventLimits(lake.max_event_skew_seconds, lake.late_exchanges)
            for number, part in enumerate(parts, 1):
                if self._stop.is_set():
                    return False
                counts = restate(store, part, limits)
                self._say(_text(number, len(parts), part, counts))
        Job(self._settings, (Stage.BUILD,), self._say, self._stop).run_locked(spark)
        return not self._stop.is_set()


def _text(number: int, total: int, part: Restatement, counts: dict[str, int]) -> str:
    """Return a line of progress."""
    changes = ((INSERT, "inserted"), (UPDATE, "updated"), (DELETE, "deleted"))
    made = ", ".join(f"{counts.get(change, 0):,} {name}" for change, name in changes)
    day = us_text(part.times.first_us)[:10]
    return f"rebuild {number}/{total}: {day} {part.table.name}: {made}"
