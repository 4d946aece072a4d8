"""What importing loads, seen from a fresh interpreter."""

import json
import pkgutil
import subprocess
import sys

import tardis_machine
from tardis_machine.app.publishing.wiring import PROCESS_MODULE


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


def test_importing_the_model_loads_no_network_library() -> None:
    loaded = loaded_by("tardis_machine.model.records, tardis_machine.model.requests")
    assert not loaded & {"aiohttp", "asyncio", "structlog"}


def test_publisher_process_loads_only_what_it_publishes_with() -> None:
    loaded = loaded_by(PROCESS_MODULE)
    ours = {name for name in loaded if name.startswith("tardis_machine.")}
    packages = {name.split(".")[1] for name in ours}
    assert packages == {"app", "bronze", "buses", "generated", "model", "sinks", "telemetry"}
    assert len(ours) < 100
    assert "aiohttp" not in loaded


def test_no_public_name_is_also_a_module() -> None:
    # A module takes its name in the package when it is first imported.
    modules = {module.name for module in pkgutil.iter_modules(tardis_machine.__path__)}
    assert not modules & set(tardis_machine.__all__)
