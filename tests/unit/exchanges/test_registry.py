"""The registry: which ids have mappers, and what is imported when."""

import subprocess
import sys
from importlib import import_module

import pytest

from tardis_machine.exchanges.registry import FAMILIES, REGISTRY

LOADED = """
import sys
{code}
print(*sorted(name for name in sys.modules if name.startswith("tardis_machine.exchanges.venues.")))
"""


def loaded_venues(code: str) -> list[str]:
    """Run code in a fresh interpreter and return the venue modules it imports."""
    command = [sys.executable, "-c", LOADED.format(code=code)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [name.removeprefix("tardis_machine.exchanges.venues.") for name in output.split()]


@pytest.mark.parametrize("family", FAMILIES)
def test_family_provides_the_ids_that_are_registered(family: str) -> None:
    module = import_module(f"tardis_machine.exchanges.venues.{family}")
    assert tuple(module.VENUES) == FAMILIES[family]


def test_ids_of_families_have_mappers_and_no_others() -> None:
    mapped = {name for name, exchange in REGISTRY.items() if exchange.has_mappers}
    assert mapped == {name for ids in FAMILIES.values() for name in ids}
    assert {"bitmex", "binance", "binance-futures", "deribit", "coinbase"} <= mapped


def test_importing_the_registry_loads_no_family() -> None:
    code = "import tardis_machine.exchanges.versions, tardis_machine.exchanges.filters"
    assert loaded_venues(code) == []


def test_using_an_exchange_loads_its_family_alone() -> None:
    code = """
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import version_at
version_at(REGISTRY["bitmex"], "trade", 0, 0)
"""
    assert {name.partition(".")[0] for name in loaded_venues(code)} == {"bitmex"}
