"""What a job says when it cannot start: one message, no trace, nothing left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tardis_machine.lake.errors import JarsError
from tardis_machine.lake.settings import SparkSettings
from tardis_machine.lake.spark.jars import find_jars, jars_folder
from tardis_machine.lake.spark.java import find_java_home

UNREACHABLE = """\
<ivysettings>
  <settings defaultResolver="mirror"/>
  <resolvers><ibiblio name="mirror" m2compatible="true" root="{root}"/></resolvers>
</ivysettings>
"""


def run(folder: Path, *flags: str, **variables: str) -> tuple[int, str]:
    """Run `lake run` and return its exit code and what it wrote."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TM_")}
    command = [sys.executable, "-m", "tardis_machine", "lake", "run", "--once", *flags]
    done = subprocess.run(
        [*command, "--lake", str(folder / "lake"), "--cache-dir", str(folder / "cache")],
        env=environ | variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_machine_without_java_is_told_how_to_get_one(tmp_path: Path) -> None:
    code, said = run(
        tmp_path, "--files-dir", str(tmp_path), PATH=str(tmp_path), JAVA_HOME=str(tmp_path / "jre")
    )
    assert code == 2
    assert said.startswith("Spark needs Java 17 or newer")
    assert "Install a JDK" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "lake").exists()


def test_folder_without_jars_is_refused(tmp_path: Path) -> None:
    code, said = run(tmp_path, "--files-dir", str(tmp_path), "--jars", str(tmp_path / "empty"))
    assert code == 2
    assert "empty: no .jar files. Use a folder of jars, auto or none." in said
    assert len(said.splitlines()) == 1


def test_job_without_a_bus_names_the_buses(tmp_path: Path) -> None:
    code, said = run(tmp_path)
    assert code == 2
    assert "Set exactly one bus to read" in said
    assert "Given: none." in said


def test_connect_server_is_refused_with_another_way(tmp_path: Path, closed_port: int) -> None:
    remote = f"sc://127.0.0.1:{closed_port}"
    code, said = run(tmp_path, "--files-dir", str(tmp_path), "--remote", remote)
    assert code == 2
    assert said.startswith(f"--remote {remote}: ")
    assert "--master" in said


def test_jars_that_cannot_be_downloaded_are_explained(tmp_path: Path) -> None:
    mirror = tmp_path / "ivysettings.xml"
    mirror.write_text(UNREACHABLE.format(root=(tmp_path / "nowhere").as_uri()))
    settings = SparkSettings(cache_dir=tmp_path / "cache", ivy_settings=mirror)
    with pytest.raises(JarsError, match=r"could not be downloaded.*--ivy-settings.*--jars") as e:
        find_jars(settings, find_java_home(tmp_path / "cache"))
    assert str(jars_folder(settings.cache_dir)) in str(e.value)
    assert "delta-spark" in str(e.value)
    assert list(settings.cache_dir.iterdir()) == []


def test_jars_of_ones_own_are_taken_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "delta.jar").touch()
    settings = SparkSettings(jars=str(tmp_path), cache_dir=tmp_path / "cache")
    assert find_jars(settings, tmp_path) == (tmp_path / "delta.jar",)


def test_cluster_with_jars_needs_none(tmp_path: Path) -> None:
    assert find_jars(SparkSettings(jars="none", cache_dir=tmp_path), tmp_path) == ()
