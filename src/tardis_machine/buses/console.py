"""Settings of the bus for people: events as lines on standard output."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from tardis_machine.bronze.keys import DEFAULT_KEY, compile_template
from tardis_machine.bronze.routing import Router
from tardis_machine.buses.settings import BusSettings, DeliveryOverrides
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import group, option

DESTINATION = "stdout"


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings(BusSettings):
    """Print events, to see what is published."""

    bus: ClassVar[str] = "console"
    title: ClassVar[str] = "Console"
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
