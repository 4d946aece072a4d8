"""Read Kinesis: ranges of records between two sequence numbers of a shard.

Kinesis does not report the newest sequence number. So the driver fetches records to find where a
batch can end; see `planner`. What it fetched waits in a spool for the task, which saves fetching it
twice and no more: sequence numbers never change their meaning, so a task that finds no spool asks
Kinesis again and gets the same.
"""

import time
from collections.abc import Iterator
from typing import Any

from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.lake.buses.client import Page, Planner, RangeClient, ReadPolicy
from tardis_machine.lake.buses.kinesis.planner import KinesisPlanner
from tardis_machine.lake.buses.kinesis.records import record_rows
from tardis_machine.lake.buses.kinesis.shards import (
    MAX_PAGE_RECORDS,
    ForeignPositionError,
    KinesisApi,
    RecordPage,
)
from tardis_machine.lake.buses.kinesis.spool import Spool
from tardis_machine.lake.buses.positions import Range


class KinesisBus:
    """The streams that the settings of publishing name.

    Args:
        settings: How to reach them.
        spool: Folder for pages between driver and tasks; None: tasks fetch them again.
    """

    name = KinesisSettings.bus

    def __init__(self, settings: KinesisSettings, spool: str | None = None) -> None:
        self._settings = settings
        self._spool = spool

    @property
    def endpoint(self) -> str:
        """Return the endpoint or the region; streams of other accounts have other ids."""
        return self._settings.endpoint_url or self._settings.known_region or ""

    def connect(self) -> "KinesisClient":
        """Return what reads ranges."""
        return KinesisClient(self._settings, self._spool)

    def planner(self, policy: ReadPolicy) -> Planner:
        """Return what plans batches."""
        return KinesisPlanner(self._settings, self._spool, policy)


class KinesisClient(RangeClient):
    """Reads ranges from the spool, or from Kinesis."""

    def __init__(self, settings: KinesisSettings, spool: str | None) -> None:
        self._api = KinesisApi(settings)
        self._spool = Spool(spool) if spool else None

    def close(self) -> None:
        """Close the connections."""
        self._api.close()

    def read(self, wanted: Range) -> Iterator[Page]:
        """Yield what was spooled, or fetch it again."""
        spooled = self._spool.read(wanted) if self._spool else None
        if spooled is None:
            yield from self._fetched(wanted)
            return
        for batch in spooled:
            yield Page(batch, wanted.end)

    def _fetched(self, wanted: Range) -> Iterator[Page]:
        end = int(wanted.end["sequence"])
        for page in self._pages(wanted):
            records = [each for each in page.records if _sequence(each) <= end]
            if records:
                last = records[-1]["SequenceNumber"]
                yield Page(record_rows(wanted.lane, records), {"sequence": last})
            if page.records and _sequence(page.records[-1]) >= end:
                return

    def _pages(self, wanted: Range) -> Iterator[RecordPage]:
        """Yield pages until there can be none that the range still needs."""
        started_at = time.monotonic()
        (stream, shard), after = wanted.lane, wanted.start["sequence"]
        pages = self._api.pages(stream, shard, after, lambda: MAX_PAGE_RECORDS)
        try:
            for page in pages:
                yield page
                if not page.records and page.read_to >= started_at:
                    return
        except ForeignPositionError:
            # The stream was recreated, which the planner has reported.
            yield from self._api.pages(stream, shard, "", lambda: MAX_PAGE_RECORDS)


def _sequence(record: dict[str, Any]) -> int:
    return int(record["SequenceNumber"])
