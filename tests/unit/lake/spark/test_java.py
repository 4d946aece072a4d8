"""Which Java Spark runs on, and what to do without one."""

from pathlib import Path

import pytest

from tardis_machine.lake.errors import JavaNotFoundError
from tardis_machine.lake.spark.java import find_java_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a Java home that is the only one there is."""
    launcher = tmp_path / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return tmp_path / "java"


def make_java(home: Path, version: str) -> None:
    launcher = home / "bin" / "java"
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    launcher.chmod(0o755)


@pytest.mark.parametrize("version", ["17.0.19", "21", "25.0.1"])
def test_new_enough_java_is_taken(home: Path, version: str) -> None:
    make_java(home, version)
    assert find_java_home(home.parent) == home


@pytest.mark.parametrize(
    ("version", "seen"), [("11.0.2", "version 11"), ("1.8.0_392", "version 8")]
)
def test_old_java_is_refused_with_its_version(home: Path, version: str, seen: str) -> None:
    make_java(home, version)
    with pytest.raises(JavaNotFoundError, match=f"needs Java 17 or newer.*{home} .{seen}"):
        find_java_home(home.parent)


def test_java_that_does_not_run_is_named(home: Path) -> None:
    with pytest.raises(JavaNotFoundError, match=f"{home} .does not run.*Install a JDK"):
        find_java_home(home.parent)


def test_no_java_at_all_says_where_it_was_looked_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(JavaNotFoundError, match=r"JAVA_HOME, PATH .* found none.*pip install"):
        find_java_home(home.parent)
