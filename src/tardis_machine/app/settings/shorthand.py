"""`event_bus={"provider": "kafka", …}`: one bus and its delivery in a single mapping."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tardis_machine.app.settings.options import snake_case
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SettingsError, nearest_hint

TABLE = "event_bus"
PROVIDER = "provider"


def without_shorthand(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which every bus has its own table.

    What all buses share stays in `event_bus`; the other keys move to the table of the provider.

    Raises:
        SettingsError: there is no such provider, or its table is given besides.
    """
    given = {snake_case(name): value for name, value in options.items()}
    shared = given.get(TABLE)
    if not isinstance(shared, Mapping) or PROVIDER not in shared:
        return dict(options)
    rest = {snake_case(name): value for name, value in shared.items()}
    table = _table_of(str(rest.pop(PROVIDER)))
    if table in given:
        raise SettingsError(f"Give {table} or the provider in {TABLE}, not both.")
    delivery = {field.name for field in fields(EventBusSettings)}
    return given | {
        TABLE: {name: value for name, value in rest.items() if name in delivery},
        table: {name: value for name, value in rest.items() if name not in delivery},
    }


def _table_of(provider: str) -> str:
    names = [bus.bus for bus in PublishingSettings().buses]
    table = snake_case(provider)
    if table.replace("_", "-") not in names:
        raise SettingsError(
            f"Unknown {TABLE} provider {provider!r}.{nearest_hint(provider, names)} "
            f"Valid: {', '.join(names)}."
        )
    return table
