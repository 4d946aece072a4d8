from pathlib import Path

from tardis_machine.lake.settings import SparkSettings
from tardis_machine.lake.spark.jars import find_jars, jars_folder

# Stands for Java: downloads one jar, and before it ends another process has put its own in place.
SLOWER = """#!/bin/sh
for word in "$@"; do pattern=$word; done
folder=$(dirname "$pattern")
mkdir -p "$folder" "{target}"
touch "$folder/delta.jar" "{target}/delta.jar"
"""


def test_slower_of_two_downloads_leaves_the_jars_of_the_other(tmp_path: Path) -> None:
    settings = SparkSettings(cache_dir=tmp_path / "cache")
    target = jars_folder(settings.cache_dir)
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(SLOWER.format(target=target))
    java.chmod(0o755)
    assert find_jars(settings, tmp_path / "java") == (target / "delta.jar",)
    assert list(target.iterdir()) == [target / "delta.jar"]
