"""The streaming query of each stage, as the settings of a job want it.

Apart from the jobs because it imports all there is of the lake: that takes most of a second, in
which the JVM can start.
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.lake.bronze.ingest import ingest_writer
from tardis_machine.lake.buses import chosen_bus
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.gold.build import build_writer
from tardis_machine.lake.settings import LakeSettings
from tardis_machine.lake.silver.limits import EventLimits
from tardis_machine.lake.silver.refine import refine_writer
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.tables import TABLES


@dataclass(frozen=True)
class Queries:
    """Makes the queries of one lake; the caller sets their triggers and starts them."""

    spark: SparkSession
    lake: LakeSettings
    listener: StreamingQueryListener

    def register_tables(self) -> None:
        """Make the tables that exist known to the catalog, if there is one."""
        Store(self.spark, self.lake.root, self.lake.catalog).register(TABLES.values())

    def ingest(self, publishing: PublishingSettings) -> DataStreamWriter:
        """Return the query from the bus to Bronze."""
        lake = self.lake
        policy = ReadPolicy(max_rows=lake.max_batch_events, fails_on_loss=lake.fail_on_data_loss)
        return ingest_writer(self._store(), chosen_bus(publishing), policy)

    def refine(self) -> DataStreamWriter:
        """Return the query from Bronze to Silver."""
        lake = self.lake
        limits = EventLimits(lake.max_event_skew_seconds, lake.late_exchanges)
        return refine_writer(self._store(), lake.max_batch_bytes, limits=limits)

    def build(self, *, restates: bool) -> DataStreamWriter:
        """Return the query from Silver to Gold."""
        return build_writer(self._store(), self.lake.max_batch_bytes, restates=restates)

    def _store(self) -> Store:
        store = Store(self.spark, self.lake.root, self.lake.catalog)
        # Every store has its own session, and every session its own listeners.
        store.spark.streams.addListener(self.listener)
        return store
