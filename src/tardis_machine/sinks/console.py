"""A bus for people: events as lines on standard output."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import msgspec

from tardis_machine.bronze.decode import Decoder
from tardis_machine.bronze.keys import DEFAULT_KEY, compile_template
from tardis_machine.bronze.routing import Router
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import group, option
from tardis_machine.sinks.base import OK, Event, Result
from tardis_machine.sinks.settings import BusSettings, DeliveryOverrides, EventBusSettings

DESTINATION = "stdout"


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings(BusSettings):
    """Print events, to see what is published."""

    bus: ClassVar[str] = "console"
    title: ClassVar[str] = "Console"
    sink: ClassVar[str] = "console:ConsoleSink"
    anchors: ClassVar[tuple[str, ...]] = ("enable",)

    enable: bool = option(default=False, help="Print every event.")
    prefix: str = option("[EVENTBUS]", "What each line starts with.")
    format: Literal["summary", "json"] = option("summary", "Form of the lines.")
    key_template: str = option(DEFAULT_KEY, "Key shown with every event.")
    delivery: DeliveryOverrides = group(DeliveryOverrides, "console")

    def problems(self) -> Iterable[str]:
        """Return what is wrong with the template."""
        try:
            compile_template(self.key_template, "console-key-template")
        except SettingsError as error:
            return error.problems
        return ()

    def router(self) -> Router:
        """Return the one destination."""
        key = compile_template(self.key_template, "console-key-template")
        return Router(DESTINATION, key=key, cases=self.cases)


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
