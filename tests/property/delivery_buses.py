"""Buses in memory whose brokers outlive every publisher, and remember what arrived when."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tardis_machine.bronze.keys import DEFAULT_KEY
from tardis_machine.buses.destinations import Destinations
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import BusSettings
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.memory import MemorySink

BATCH_EVENTS = 3


@dataclass(frozen=True, kw_only=True)
class ModelSettings(BusSettings):
    bus: ClassVar[str] = "memory"
    title: ClassVar[str] = "Memory"
    anchors: ClassVar[tuple[str, ...]] = ()

    place: str = "one"
    template: str | None = None

    @property
    def endpoint(self) -> str:
        return self.place

    @property
    def destinations(self) -> Destinations:
        return Destinations(
            bus="memory",
            noun="stream",
            base="bronze",
            template=self.template,
            key=DEFAULT_KEY,
            pattern=re.compile(".+"),
        )


class OtherSettings(ModelSettings):
    """A second bus, which is always well."""

    bus: ClassVar[str] = "other"


class ModelSink(MemorySink):
    """A client of a broker."""

    def __init__(self, broker: "Broker") -> None:
        super().__init__(max_batch_events=BATCH_EVENTS)
        self.stored = broker.stored
        self.judge = broker.judge
        self._broker = broker

    def open(self) -> None:
        self.is_down = self._broker.is_down
        super().open()

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        self.is_down = self._broker.is_down
        results = super().send(events)
        self._broker.note_refused(events, results)
        return results


class Broker:
    """What stands behind one bus at one endpoint, for longer than any publisher."""

    def __init__(self) -> None:
        self.stored: list[Event] = []
        self.results: dict[str, Result] = {}
        """What becomes of events, by destination or by symbol."""
        self.is_down = False
        self.checked = 0
        self.first: dict[str, bytes] = {}
        """What arrived, by delivery id."""
        self.refused: set[str] = set()
        """Delivery ids of what was refused for good; a death may repeat the attempt."""
        self.latest: dict[tuple[str, str], str] = {}
        """The last first arrival of each series of each log."""

    def judge(self, event: Event) -> Result | None:
        found = self.results.get(event.route.destination, OK)
        return self.results.get(event.series.symbol, OK) if found is OK else found

    def note_refused(self, events: Sequence[Event], results: Sequence[Result]) -> None:
        """Keep which events can never be delivered, as far as a publisher knows."""
        pairs = list(zip(events, results, strict=True))
        bad = [each for each in pairs if each[1].outcome is Outcome.BAD_RECORD]
        # Several that were refused together are tried again, to find the one to blame.
        is_sure = sum(result.is_shared for _, result in bad) == 1
        self.refused |= {
            event.delivery_id for event, result in bad if is_sure or not result.is_shared
        }

    def check(self) -> None:
        """Check order and content of what arrived since the last check."""
        for event in self.stored[self.checked :]:
            known = self.first.get(event.delivery_id)
            assert known in (None, event.data), f"{event.delivery_id} was sent with other bytes"
            if known is not None:
                continue
            self.first[event.delivery_id] = event.data
            if event.delivery_id in self.refused:
                # The position had not moved over it when the publisher died.
                continue
            key = event.delivery_id.partition("-")[0], event.series.label
            latest = self.latest.get(key, "")
            assert event.delivery_id > latest, f"{event.delivery_id} came after {latest} of {key}"
            self.latest[key] = event.delivery_id
        self.checked = len(self.stored)
