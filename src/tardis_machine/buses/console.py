"""Settings of the console bus: events as lines on standard output."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from tardis_machine.bronze.keys import DEFAULT_KEY
from tardis_machine.buses.destinations import Destinations
from tardis_machine.buses.settings import BusSettings, DeliveryOverrides
from tardis_machine.model.settings import group, option

DESTINATION = "stdout"

_ANY = re.compile(".+")


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings(BusSettings):
    """Print events to standard output."""

    bus: ClassVar[str] = "console"
    title: ClassVar[str] = "Console"
    anchors: ClassVar[tuple[str, ...]] = ("enable",)
    usual: ClassVar[tuple[str, ...]] = ("enable", "format")

    enable: bool = option(default=False, help="Print every event to standard output.")
    prefix: str = option("[EVENTBUS]", "Prefix of each line.")
    format: Literal["summary", "json"] = option("summary", "Format of the lines.")
    key_template: str = option(DEFAULT_KEY, "Template of the key shown with every event.")
    delivery: DeliveryOverrides = group(DeliveryOverrides, "console")

    @property
    def endpoint(self) -> str:
        """Return the one place it prints to."""
        return "stdout"

    @property
    def destinations(self) -> Destinations:
        """Return the one destination."""
        return Destinations(
            bus=self.bus, noun="stream", base=DESTINATION, key=self.key_template, pattern=_ANY
        )

    def problems(self) -> Iterable[str]:
        """Return what is wrong with the template."""
        return self.destinations.problems()
