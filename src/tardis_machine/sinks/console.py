"""The console bus: events as lines on standard output."""

import sys
from collections.abc import Sequence

import msgspec

from tardis_machine.bronze.decode import Decoder
from tardis_machine.buses.console import ConsoleSettings
from tardis_machine.buses.results import OK, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.base import Event


class ConsoleSink:
    """Prints events."""

    keeps_order = True

    def __init__(self, settings: ConsoleSettings, delivery: EventBusSettings) -> None:
        self._settings = settings
        self._decoder = Decoder()
        self.max_batch_events = settings.max_batch_size
        self.max_batch_bytes = settings.max_batch_bytes
        self.max_batch_delay_seconds = settings.max_batch_delay_ms / 1000

    def open(self) -> None:
        """Do nothing: standard output is there."""

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        """Print one line per event."""
        write = self._json if self._settings.format == "json" else self._summary
        sys.stdout.write("".join(f"{self._settings.prefix} {write(event)}\n" for event in events))
        sys.stdout.flush()
        return [OK] * len(events)

    def idle(self, seconds: float) -> None:
        """Do nothing."""

    def close(self, seconds: float) -> None:
        """Do nothing."""

    def _summary(self, event: Event) -> str:
        return f"{event.route.key} {event.event_id} {len(event.data)} bytes"

    def _json(self, event: Event) -> str:
        (record,) = self._decoder.decode([event.data])
        return msgspec.json.encode(record).decode()
