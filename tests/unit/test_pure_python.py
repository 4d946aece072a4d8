"""Tests without compiled code of the modules that have some, and builds without a compiler."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tardis_machine.model.compiled import SWITCH

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    "tests/unit/bronze",
    "tests/unit/computed",
    "tests/unit/exchanges/test_level_texts.py",
    "tests/unit/exchanges/test_normalizer.py",
    "tests/unit/exchanges/test_tags.py",
    "tests/unit/model/test_makers.py",
    "tests/unit/model/test_ndjson.py",
    "tests/unit/model/test_time.py",
    "tests/unit/server/test_ws_frames.py",
    "tests/golden",
    "tests/proto/test_golden.py",
    "tests/property/test_compute_books.py",
)
NO_COMPILER = {"CC": "no-such-compiler"}
MESSAGE = "no C compiler: running the slower pure Python code"


def run(*words: str, **environment: str) -> str:
    finished = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout
    return finished.stdout


def test_tests_pass_without_compiled_code() -> None:
    run("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *TESTS, **{SWITCH: "1"})


def test_build_without_a_compiler_says_so() -> None:
    assert run("hatch_build.py", **NO_COMPILER).splitlines() == [MESSAGE]


def test_wheel_without_a_compiler_is_one_for_all(tmp_path: Path) -> None:
    said = run("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), **NO_COMPILER)
    assert MESSAGE in said
    assert [path.name.partition("-py3")[2] for path in tmp_path.iterdir()] == ["-none-any.whl"]


def test_wheel_with_a_compiler_holds_the_compiled_modules(tmp_path: Path) -> None:
    run("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    (wheel,) = tmp_path.iterdir()
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")
    script = "from tardis_machine.model import compiled; print(compiled.describe())"
    unpacked = str(tmp_path / "unpacked")
    assert run("-c", script, PYTHONPATH=unpacked, **{SWITCH: ""}).strip() == "compiled"
    assert not list(Path(unpacked).rglob("*.pyx"))
