"""Every bus, one line each."""

import dataclasses
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tardis_machine.buses.carriers import carrier_class
from tardis_machine.buses.console import ConsoleSettings
from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.settings import (
    BusSettings,
    EventBusSettings,
    given_delivery,
    ignored_options,
)
from tardis_machine.model.errors import MissingExtraError, SettingsError
from tardis_machine.model.settings import group


@dataclass(frozen=True, kw_only=True)
class PublishingSettings:
    """What is published, and where to.

    A new bus is one line here: the name of its table, its settings class, the prefix of its flags.
    The class declares the rest, such as the optional dependency with its client.
    """

    event_bus: EventBusSettings = group(EventBusSettings, "event-bus")
    kafka: KafkaSettings = group(KafkaSettings, "kafka")
    kinesis: KinesisSettings = group(KinesisSettings, "kinesis")
    nats: NatsSettings = group(NatsSettings, "nats")
    event_hubs: EventHubsSettings = group(EventHubsSettings, "event-hubs")
    redis: RedisSettings = group(RedisSettings, "redis")
    files: FilesSettings = group(FilesSettings, "files")
    console: ConsoleSettings = group(ConsoleSettings, "console")

    def __post_init__(self) -> None:
        problems = [problem for bus in self.active for problem in self._problems(bus)]
        if problems:
            raise SettingsError(*problems)

    @property
    def buses(self) -> list[BusSettings]:
        """Return the settings of every bus."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return [value for value in values if isinstance(value, BusSettings)]

    @property
    def active(self) -> list[BusSettings]:
        """Return the settings of the buses that are on."""
        return [bus for bus in self.buses if bus.is_on]

    def delivery(self, bus: BusSettings) -> EventBusSettings:
        """Return how events are delivered to a bus."""
        return bus.resolve(self.event_bus)

    def warnings(self) -> Iterator[str]:
        """Say which options have no effect, because their bus is off or they have none now."""
        yield from self.event_bus.warnings()
        for bus in self.buses:
            for name in ignored_options(bus):
                anchors = " or ".join(f"{bus.bus}-{anchor}" for anchor in bus.anchors)
                yield (
                    f"{name} is set but {anchors.replace('_', '-')} is not: "
                    f"{bus.title} publishing stays disabled"
                )

    def _problems(self, bus: BusSettings) -> Iterable[str]:
        yield from missing_client(bus)
        try:
            self.delivery(bus)
        except SettingsError as error:
            yield from error.problems
        dead_letter = given_delivery(bus).get("dead_letter", self.event_bus.dead_letter)
        if dead_letter == "target" and bus.dead_letter_target is None:
            yield f"{bus.bus}-dead-letter-target is required when its dead-letter is target."


def bus_classes() -> list[type[BusSettings]]:
    """Return the settings class of every bus."""
    return [type(bus) for bus in PublishingSettings().buses]


def missing_client(bus: BusSettings) -> Iterator[str]:
    """Say how to install the client of a bus, when it is not there."""
    carried = carrier_class(bus)
    if carried.client is not None and not _is_installed(carried.client):
        yield str(
            MissingExtraError(
                f"{bus.title} publishing requires {carried.client!r}. "
                f"Run: pip install 'tardis-machine[{carried.extra}]'"
            )
        )


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        # The package around it is missing already.
        return False
