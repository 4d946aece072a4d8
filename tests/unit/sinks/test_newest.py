"""Dropping the newest events of a backlog at its bound: what is kept, counted and freed."""

from pathlib import Path

import pytest

from tardis_machine.bronze.series import Origin
from tardis_machine.buses.settings import MIN_SPOOL_BYTES
from tardis_machine.model.control import Disconnect
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.time import us_text
from tardis_machine.sinks.delivery.backoff import Backoff
from tardis_machine.sinks.delivery.encoding import LogEncoding
from tardis_machine.sinks.delivery.feeds import Feeds
from tardis_machine.sinks.delivery.newest import skip_newest
from tardis_machine.sinks.memory import MemorySink
from tardis_machine.sinks.publisher.publisher import tidy_log, waiting_events
from tardis_machine.sinks.storage.directory import LogDirectory
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.segments import list_segments
from tests.contract.event_logs import now_us
from tests.contract.test_memory_sink import MemorySettings
from tests.unit.bronze.records import LOCAL_US
from tests.unit.sinks.delivery import delivery, wait_until
from tests.unit.sinks.publisher.test_client import READER, Setup, client_for, lines

LOST = encode_lines([Disconnect(exchange="bitmex", local_timestamp=us_text(LOCAL_US))])
EVENTS = 4001
BOUND = {"spool_max_bytes": MIN_SPOOL_BYTES, "overflow": "drop-newest"}


def write(made: Setup, count: int) -> None:
    """Write chunks of about 700 kB, each with one control event."""
    stream, chunk = made.client.stream(Origin.REALTIME, {}), lines(EVENTS - 1) + LOST
    for _ in range(count):
        stream.publish_now(chunk)


async def test_oldest_events_are_delivered_in_order_and_the_newest_dropped(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.is_down = True
    with client_for(tmp_path, 10**9) as made:
        write(made, 40)
        with made.bus(sink, **BOUND) as bus:
            wait_until(lambda: bus.status().totals.dropped > 0)
            dropped = bus.status().totals.dropped
            write(made, 10)
            # All of it is beyond the bound, but for the errors and disconnects.
            wait_until(lambda: bus.status().totals.dropped >= dropped + 10 * (EVENTS - 1))
            assert bus.status().totals.accepted == 50 * EVENTS
        with made.bus(sink, **BOUND) as bus:
            assert bus.status().totals.dropped == dropped + 10 * (EVENTS - 1)
            sink.is_down = False
            wait_until(lambda: bus.is_empty)
            write(made, 1)
            wait_until(lambda: bus.status().totals.accepted == 51 * EVENTS and bus.is_empty)
            totals = bus.status().totals
    assert totals.published + totals.dropped == 51 * EVENTS
    stored = [event.delivery_id for event in sink.stored]
    assert stored == sorted(set(stored))
    trades = [event for event in sink.stored if event.series.case == "trade"]
    assert len(trades) == 51 * (EVENTS - 1) - totals.dropped
    assert trades[0].delivery_id.endswith("-000000000001-000000")
    assert len(sink.stored) - len(trades) == 51


def tidied_bytes(log: LogDirectory) -> int:
    """Delete what nobody needs; return how much is left on disk."""
    tidy_log(log)
    return sum(each.path.stat().st_size for each in list_segments(log.path))


async def test_segments_that_only_the_slow_bus_would_need_are_deleted(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.is_down = True
    with client_for(tmp_path, 10**9) as made, made.bus(sink, **BOUND) as bus:
        for _ in range(6):
            write(made, 25)
            wait_until(lambda: bus.status().queued < 2 * 25 * EVENTS)
        wait_until(lambda: bus.status().totals.dropped > 100 * (EVENTS - 1))
        # The thread of the bus may still be leaving out.
        wait_until(lambda: tidied_bytes(made.log) < 4 * MIN_SPOOL_BYTES)
        wait_until(lambda: waiting_events(made.log, READER) == bus.status().queued)
        sink.is_down = False
        wait_until(lambda: bus.is_empty)
        totals = bus.status().totals
    assert (totals.quarantined, totals.published + totals.dropped) == (0, 150 * EVENTS)


def feeds_of(log: LogDirectory) -> Feeds:
    settings = MemorySettings()
    feeds = Feeds(READER, settings.router(), lambda: Backoff(1, 1), now_us, log.path, "off")
    assert feeds.add(log, LogEncoding(log, settings.cases, 1), is_own=True, comes_first=False)
    return feeds


async def test_chunk_that_was_settled_in_part_is_not_skipped(tmp_path: Path) -> None:
    with client_for(tmp_path) as made:
        stream = made.client.stream(Origin.REALTIME, {})
        stream.publish_now(lines(2) + LOST)
        stream.publish_now(lines(2) + LOST)
        before = feeds_of(made.log)
        first, *_ = before.read() or []
        assert first.place is not None
        first.place.outcomes[first.line] = Settled.DELIVERED
        before.close()
        feeds = feeds_of(made.log)
        (feed,) = feeds
        assert skip_newest(feed, feed.end)[1] == 2
        assert (sum(feeds.totals()), feed.waiting) == (3, 3)
        left = [event.series.case for _ in range(2) for event in feeds.read() or []]
        assert left == ["trade", "disconnect", "disconnect"]
        feeds.close()


@pytest.mark.parametrize("overflow", ["block", "drop-newest", "drop-oldest", "spill"])
def test_two_names_for_each_way(overflow: str) -> None:
    assert delivery(overflow=overflow).drops_newest is (overflow in ("block", "drop-newest"))
