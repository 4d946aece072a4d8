"""A lake that must be there."""

from tardis_machine.lake.query.inventory import TableState, list_tables
from tardis_machine.model.errors import SettingsError


def existing_tables(root: str) -> list[TableState]:
    """Return the tables of a lake.

    Raises:
        SettingsError: there are none, so that nothing can be said about them.
    """
    tables = list_tables(root)
    if not tables:
        raise SettingsError(
            f"There is no lake at {root}: no table was found. Name its root with --lake, or create "
            "it with `tardis-machine lake run`."
        )
    return tables
