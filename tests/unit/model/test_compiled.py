"""Which code runs, seen from a fresh interpreter with its own environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tardis_machine
from tardis_machine.model.compiled import MODULES, SWITCH

SCRIPT = """
from tardis_machine.bronze.encode import make_block_encoder
from tardis_machine.model.compiled import describe
print(make_block_encoder.__name__, describe(), sep="|")
"""


def what_runs(script: str = SCRIPT, **environment: str) -> list[str]:
    variables = {name: value for name, value in os.environ.items() if name != SWITCH}
    finished = subprocess.run(
        [sys.executable, "-c", script],
        env=variables | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.strip().split("|")


@pytest.mark.parametrize("environment", [{}, {SWITCH: ""}, {SWITCH: "0"}])
def test_compiled_modules_are_built_and_used(environment: dict[str, str]) -> None:
    # When this fails there is no C compiler, or compiling failed: `python hatch_build.py` says.
    assert what_runs(**environment) == ["CompiledBlockEncoder", "compiled"]


def test_switch_leaves_compiled_modules_unused() -> None:
    assert what_runs(**{SWITCH: "1"}) == [
        "PythonBlockEncoder",
        f"pure Python, as {SWITCH} says",
    ]


@pytest.mark.parametrize("name", MODULES)
def test_module_that_was_not_built_is_replaced(name: str) -> None:
    # None in `sys.modules` is how Python itself marks a module that cannot be imported.
    script = f"import sys\nsys.modules[{name!r}] = None\n{SCRIPT}"
    _, description = what_runs(script)
    # Modules that use it cannot be imported either.
    assert description.startswith("pure Python (")
    assert f"{name} was not built" in description


def test_every_compiled_module_is_named() -> None:
    package = Path(tardis_machine.__file__).parent
    sources = (path.relative_to(package.parent) for path in package.rglob("*.pyx"))
    assert sorted(".".join(path.with_suffix("").parts) for path in sources) == sorted(MODULES)
