"""What importing loads, seen from a fresh interpreter."""

import json
import pkgutil
import subprocess
import sys

import tardis_machine


def loaded_by(module: str) -> set[str]:
    """Return every module that is loaded once this one was imported."""
    script = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(finished.stdout))


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = loaded_by("tardis_machine")
    assert {name for name in loaded if name.startswith("tardis_machine")} == {"tardis_machine"}
    assert not loaded & {"aiohttp", "msgspec", "prometheus_client", "structlog", "asyncio"}


def test_no_public_name_is_also_a_module() -> None:
    # A module takes its name in the package when it is first imported.
    modules = {module.name for module in pkgutil.iter_modules(tardis_machine.__path__)}
    assert not modules & set(tardis_machine.__all__)
