"""Measure how long an event takes from the bus to Gold while a job runs: seconds of wall time.

Run with `python -m benchmarks.lake_lag [seconds]`. Trades, book changes and book tickers come at
160 per second. The lag is the age of the oldest trade that the 1 d bars do not have yet.
"""

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import identities
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.lake.jobs import ALL, Job, JobSettings
from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.model.records import BookChange, BookLevel, BookTicker, Trade
from tardis_machine.model.time import ms_text, us_text
from tardis_machine.sinks.base import Sink
from tardis_machine.sinks.delivery.events import address
from tardis_machine.sinks.registry import make_sink

WARM_SECONDS = 90.0
MEASURED_SECONDS = 120.0
PAUSE_SECONDS = 0.25
TRADES_PER_PAUSE = 15
CHANGES_PER_PAUSE = 15
TICKERS_PER_PAUSE = 10
SAMPLE_SECONDS = 0.5
TARGET_SECONDS = 15.0
SERIES = {"exchange": "bitmex", "symbol": "XBTUSD"}
COUNT = "select coalesce(sum(trades), 0) from gold.bars where interval = '1d'"


class Producer(threading.Thread):
    """Publishes events with the times of now, until it is stopped."""

    def __init__(self, bus: FilesSettings, stop: threading.Event) -> None:
        super().__init__()
        self._bus = bus
        self._stopped = stop
        self._encoder = Encoder("bench", Origin.REALTIME)
        self.sent_at: list[float] = []
        """When each trade was sent, by the monotonic clock."""

    def run(self) -> None:
        delivery = EventBusSettings(producer_id="bench", message_id="off")
        sink = make_sink(self._bus, self._bus.resolve(delivery))
        sink.open()
        while not self._stopped.wait(PAUSE_SECONDS):
            self._send(sink)
        sink.close(5)

    def _send(self, sink: Sink) -> None:
        now_us = time.time_ns() // 1000
        envelopes = self._encoder.encode(list(_records(now_us)), now_us)
        ids = [f"bench-{now_us}-{number}" for number in range(len(envelopes))]
        sink.send(address(envelopes, self._bus.router(), identities(envelopes), ids, 0.0))
        self.sent_at += [time.monotonic()] * TRADES_PER_PAUSE


def _records(now_us: int) -> Iterator[Trade | BookChange | BookTicker]:
    times = {"timestamp": ms_text(now_us // 1000), "local_timestamp": us_text(now_us)}
    for number in range(TRADES_PER_PAUSE):
        yield Trade(**SERIES, **times, id=str(number), price=100.0, amount=1.0, side="buy")
    for number in range(CHANGES_PER_PAUSE):
        bids = [BookLevel(100.0 - number, 1.0)]
        yield BookChange(**SERIES, **times, is_snapshot=False, bids=bids, asks=[])
    for number in range(TICKERS_PER_PAUSE):
        prices = {"bid_price": 99.0, "ask_price": 101.0 + number}
        yield BookTicker(**SERIES, **times, **prices, bid_amount=1.0, ask_amount=1.0)


@contextmanager
def running(folder: Path) -> Iterator[Producer]:
    """Publish, and run a job over it."""
    bus, stop = FilesSettings(dir=folder / "bus"), threading.Event()
    settings = JobSettings(
        spark=SparkSettings(),
        lake=LakeSettings(root=str(folder / "lake")),
        publishing=PublishingSettings(files=bus),
    )
    producer = Producer(bus, stop)
    job = threading.Thread(target=Job(settings, ALL, print, stop).run)
    for thread in (producer, job):
        thread.start()
    try:
        yield producer
    finally:
        stop.set()
        for thread in (producer, job):
            thread.join()


def lag_seconds(lake: str, producer: Producer) -> float:
    """Return the age of the oldest trade that Gold lacks."""
    (answer,) = list(Query(lake, COUNT).lines("csv"))[1:]
    seen, sent = int(float(answer.strip())), producer.sent_at
    return time.monotonic() - sent[seen] if seen < len(sent) else 0.0


def measure(seconds: float) -> list[float]:
    """Return the lag, sampled while a job runs."""
    lags: list[float] = []
    with tempfile.TemporaryDirectory() as name, running(Path(name)) as producer:
        time.sleep(WARM_SECONDS)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            lags.append(lag_seconds(str(Path(name, "lake")), producer))
            time.sleep(SAMPLE_SECONDS)
    return lags


def main() -> None:
    """Print median, 95th percentile and maximum."""
    lags = sorted(measure(float(sys.argv[1]) if sys.argv[1:] else MEASURED_SECONDS))
    high = lags[int(len(lags) * 0.95)]
    print(
        f"event to Gold at 160 events/s, s: p50 {statistics.median(lags):.1f}, p95 {high:.1f}, "
        f"max {lags[-1]:.1f}; target {TARGET_SECONDS:.0f}"
    )


if __name__ == "__main__":
    main()
