"""The shape of the package, as ARCHITECTURE.md describes it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tardis_machine"
MAX_MODULES = 15
LARGER = {"exchanges/venues", "sinks"}
"""One module per family; the modules of delivery, which get rooms of their own."""

PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def test_files_that_the_walks_name_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`(\w+(?:/\w+)+\.py)`", text)
    assert len(named) > 40
    assert [name for name in named if not (SOURCE / name).is_file()] == []


def test_packages_stay_small_enough_to_be_read() -> None:
    sizes = {
        path.relative_to(SOURCE).as_posix(): sum(
            module.name != "__init__.py" for module in path.glob("*.py")
        )
        for path in PACKAGES
    }
    assert {
        name: size for name, size in sizes.items() if size > MAX_MODULES and name not in LARGER
    } == {}


def test_core_names_no_venue() -> None:
    families = {path.stem for path in (SOURCE / "exchanges" / "venues").glob("[a-z]*")}
    engine = [
        path
        for path in (SOURCE / "exchanges").glob("*.py")
        # What is known of every exchange is data.
        if path.name not in ("catalog.py", "registry.py")
    ]
    named = {
        (path.name, family)
        for path in engine
        for family in families
        if re.search(rf'"{family}["-]', path.read_text())
    }
    assert named == set()
