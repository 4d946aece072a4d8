"""Compiled modules: used where they were built, and never needed.

`compiled_<name>.pyx` holds the hot loops of the module `<name>.py` beside it in Cython. Installing
builds it where there is a C compiler (`hatch_build.py`). `TM_PURE_PYTHON=1` leaves all unused.
"""

import os
from importlib import import_module
from typing import Any

SWITCH = "TM_PURE_PYTHON"
MODULES = (
    "tardis_machine.bronze.compiled_blocks",
    "tardis_machine.bronze.compiled_payloads",
    "tardis_machine.computed.compiled_book_snapshots",
    "tardis_machine.computed.compiled_order_book",
    "tardis_machine.exchanges.compiled_level_texts",
    "tardis_machine.exchanges.compiled_levels",
    "tardis_machine.exchanges.decoding.compiled_messages",
    "tardis_machine.exchanges.compiled_normalizer",
    "tardis_machine.exchanges.compiled_tags",
    "tardis_machine.model.compiled_makers",
    "tardis_machine.model.compiled_ndjson",
    "tardis_machine.model.compiled_time",
    "tardis_machine.server.compiled_ws_frames",
)

IS_ALLOWED = os.environ.get(SWITCH, "") in ("", "0")
"""Whether compiled modules may be used; read once, so that a process has one way for everything."""


def compiled_module(name: str) -> Any:
    """Return a compiled module, or None when it was not built, does not fit or may not be used."""
    if not IS_ALLOWED:
        return None
    try:
        return import_module(name)
    except ImportError:
        return None


def describe() -> str:
    """Say in one line whether compiled code runs, and if not, why."""
    if not IS_ALLOWED:
        return f"pure Python, as {SWITCH} says"
    # One that is missing is also what is wrong with those that need it.
    problems = dict.fromkeys(problem for name in MODULES if (problem := _problem(name)))
    return f"pure Python ({'; '.join(problems)})" if problems else "compiled"


def _problem(name: str) -> str:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        return f"{error.name} was not built"
    except ImportError as error:
        return f"{name} does not fit: {error}"
    return ""
