"""Generated code, documents and schemas belong together; the check says when they do not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proto.tree import ROOT

SCHEMA = "schemas/proto/lakehouse/bronze/v1/normalized_event.proto"
SILVER = "schemas/proto/lakehouse/silver/v1/rows.proto"
GENERATED = "src/tardis_machine/generated"
DOCUMENT = "docs/bronze.md"


def run_check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts/proto.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of everything the check looks at."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("schemas", "scripts", GENERATED):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / DOCUMENT, tmp_path / DOCUMENT)
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_committed_files_are_fresh() -> None:
    result = run_check(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_new_field_without_generation_is_stale(copy: Path) -> None:
    edit(copy / SCHEMA, "  Side side = 5;\n", "  Side side = 5;\n  // More.\n  string more = 6;\n")
    result = run_check(copy)
    assert result.returncode == 1
    assert "normalized_event_pb2.py" in result.stderr
    assert "make proto" in result.stderr


def test_edited_generated_code_is_stale(copy: Path) -> None:
    module = copy / GENERATED / "lakehouse/bronze/v1/normalized_event_pb2.pyi"
    module.write_text(module.read_text() + "\n")
    result = run_check(copy)
    assert result.returncode == 1
    assert "normalized_event_pb2.pyi" in result.stderr


def test_changed_comment_makes_the_document_stale(copy: Path) -> None:
    edit(copy / SCHEMA, "// Price of the execution.", "// Price of the deal.")
    result = run_check(copy)
    assert result.returncode == 1
    assert DOCUMENT in result.stderr


def test_edited_silver_schema_is_stale(copy: Path) -> None:
    edit(copy / SILVER, "double price = 9;", "double price = 99;")
    result = run_check(copy)
    assert result.returncode == 1
    assert f"{SILVER} is stale" in result.stderr


def test_renumbered_field_is_breaking(copy: Path) -> None:
    edit(copy / SCHEMA, "string source = 1;", "string source = 13;")
    result = run_check(copy)
    assert result.returncode != 0
    assert "source" in result.stdout + result.stderr


def test_unformatted_schema_fails(copy: Path) -> None:
    edit(copy / SCHEMA, "  string source = 1;", "    string source=1;")
    assert run_check(copy).returncode != 0
