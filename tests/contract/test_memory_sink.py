"""The bus in memory, held to the contract of all sinks."""

import re
from dataclasses import dataclass
from typing import ClassVar

import pytest

from tardis_machine.bronze.keys import DEFAULT_KEY
from tardis_machine.buses.destinations import Destinations
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.memory import MemorySink
from tests.contract.sinks import BusUnderTest, Received, SinkContract

LIMIT_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class MemorySettings(BusSettings):
    """Settings of a bus that exists in tests only."""

    bus: ClassVar[str] = "memory"
    title: ClassVar[str] = "Memory"
    anchors: ClassVar[tuple[str, ...]] = ()

    stream_template: str | None = None

    @property
    def endpoint(self) -> str:
        return ""

    @property
    def destinations(self) -> Destinations:
        return Destinations(
            bus="memory",
            noun="stream",
            base="bronze",
            template=self.stream_template,
            key=DEFAULT_KEY,
            pattern=re.compile(".+"),
        )


class MemoryUnderTest:
    """One store behind every sink of a test."""

    too_large_bytes = LIMIT_BYTES + 1

    def __init__(self) -> None:
        self.settings = MemorySettings()
        self.sink = MemorySink()
        self.sink.judge = refuse_large

    def received(self) -> list[Received]:
        return [
            Received(event.route.key, event.event_id, event.delivery_id, event.data)
            for event in self.sink.stored
        ]

    def take_down(self) -> None:
        self.sink.is_down = True

    def bring_back(self) -> None:
        self.sink.is_down = False


def refuse_large(event: Event) -> Result | None:
    if len(event.data) <= LIMIT_BYTES:
        return None
    return Result(Outcome.BAD_RECORD, "too_large", f"{len(event.data)} bytes")


class TestMemory(SinkContract):
    @pytest.fixture
    def bus(self) -> BusUnderTest:
        return MemoryUnderTest()

    def make_sink(self, bus: BusUnderTest, delivery: EventBusSettings) -> Sink:
        assert isinstance(bus, MemoryUnderTest)
        return bus.sink

    def forget_stored(self, bus: BusUnderTest) -> None:
        assert isinstance(bus, MemoryUnderTest)
        bus.sink.stored.clear()
        bus.sink.batches.clear()
