"""The scripts behind the Makefile that decide whether a change passes."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.__main__ import with_section

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "text",
    # Put together here, because this file is tracked too.
    [
        "cache in /" + "root/.cache",
        "open('/" + "tmp/x')",
        "see /" + "work/main",
        "index https://" + "py" + "pi.org/simple",
        "https://files.python" + "hosted.org/packages",
        "https://registry." + "npmjs.org/x",
        "https://repo1." + "maven.org/maven2",
    ],
)
def test_machine_path_or_registry_host_is_found(text: str, tmp_path: Path) -> None:
    tracked = load("tracked")
    tracked.ROOT = tmp_path
    path = tmp_path / "file.md"
    path.write_text(f"fine\n{text}\n")
    (problem,) = tracked.problems_of(path)
    assert problem.startswith("file.md:2: ")


@pytest.mark.parametrize(
    "text",
    [
        "a/" + "work/b",
        "<system temp dir>/.tardis-cache",
        "https://api.tardis.dev/v1",
        "./tmp/x",
        "net/home",
    ],
)
def test_harmless_text_is_not_found(text: str, tmp_path: Path) -> None:
    tracked = load("tracked")
    tracked.ROOT = tmp_path
    path = tmp_path / "file.md"
    path.write_text(text)
    assert tracked.problems_of(path) == []


def test_documents_from_declarations_are_fresh() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "docs.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_benchmark_section_is_replaced_and_a_new_one_is_added() -> None:
    once = with_section("# Title\n", "bronze", "first")
    twice = with_section(once, "bronze", "second")
    assert "## Bronze" in once
    assert "first" not in twice
    assert "second" in twice
    assert with_section(twice, "replay", "third").count("<!-- end -->") == 2
