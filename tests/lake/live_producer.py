"""A producer that publishes while something else is killed, and knows what it has sent."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import identities
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import BookChange, BookLevel, Trade
from tardis_machine.model.time import us_text
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.delivery.events import address
from tardis_machine.sinks.registry import make_sink

START_US = 1_709_251_200_000_000
STEP_US = 10_000
PAUSE_SECONDS = 0.1
TRADES_PER_CHANGE = 10
CLOSE_SECONDS = 60


@dataclass
class Sent:
    """What a producer has handed to the bus."""

    trades: list[str] = field(default_factory=list)
    """The id of each trade, once."""
    changes: list[int] = field(default_factory=list)
    """The local time of each book change, once."""
    deliveries: int = 0
    """How many events that were, repeated ones too."""


class Producer:
    """Publishes trades and book changes until it is stopped.

    Now and then it sends a batch again, as a retry does, or late, as another producer may.

    Args:
        settings: The bus.
        batch: Trades at once, ten times per second.
        seed: What is sent again or late follows from it.
    """

    def __init__(self, settings: BusSettings, batch: int, seed: int) -> None:
        self._settings = settings
        self._batch = batch
        self._router = settings.router()
        self._choose = random.Random(seed)
        self._late: list[NormalizedRecord] = []
        self.sent = Sent()
        self.error: Exception | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Publish while the body runs."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if self.error is not None:
            raise self.error

    def _run(self, stop: threading.Event) -> None:
        delivery = self._settings.resolve(EventBusSettings(producer_id="tester"))
        sink = make_sink(self._settings, delivery)
        try:
            sink.open()
            while not stop.wait(PAUSE_SECONDS):
                self._publish(sink, self._next_records())
            self._publish(sink, self._late)
            sink.close(CLOSE_SECONDS)
        except Exception as error:
            self.error = error

    def _next_records(self) -> list[NormalizedRecord]:
        first = len(self.sent.trades)
        records: list[NormalizedRecord] = []
        for number in range(first, first + self._batch):
            records.append(trade(number))
            self.sent.trades.append(str(number))
            if number % TRADES_PER_CHANGE == 0:
                records.append(book_change(number))
                self.sent.changes.append(time_us(number))
        chance = self._choose.random()
        if chance < 0.1:
            # These come after all others of their minutes.
            self._late, records = self._late + records, []
        elif chance < 0.2:
            records, self._late = records + self._late, []
        elif chance < 0.4:
            records = records + records[: self._batch // 2]
        return records

    def _publish(self, sink: Sink, records: Sequence[NormalizedRecord]) -> None:
        if not records:
            return
        events = self._events(records)
        results = sink.send(events)
        if any(result.outcome is not Outcome.OK for result in results):
            raise AssertionError(f"not stored: {set(results)}")
        self.sent.deliveries += len(events)

    def _events(self, records: Sequence[NormalizedRecord]) -> list[Event]:
        # A record by itself has the same identity whenever it is sent.
        envelopes = [
            Encoder("tester", Origin.REPLAY).encode([record], START_US)[0] for record in records
        ]
        first = self.sent.deliveries
        delivery_ids = [f"tester-{number}" for number in range(first, first + len(records))]
        event_ids = identities(envelopes)
        return address(envelopes, self._router, event_ids, delivery_ids, time.monotonic())


def time_us(number: int) -> int:
    return START_US + number * STEP_US


def trade(number: int) -> Trade:
    text = us_text(time_us(number))
    return Trade(
        symbol="XBTUSD",
        exchange="bitmex",
        id=str(number),
        price=60_000.0 + number % 100,
        amount=1.0,
        side="buy",
        timestamp=text,
        local_timestamp=text,
    )


def book_change(number: int) -> BookChange:
    text = us_text(time_us(number))
    return BookChange(
        symbol="XBTUSD",
        exchange="bitmex",
        is_snapshot=False,
        bids=[BookLevel(59_999.0, 1.0)],
        asks=[BookLevel(60_101.0, float(number))],
        timestamp=text,
        local_timestamp=text,
    )
