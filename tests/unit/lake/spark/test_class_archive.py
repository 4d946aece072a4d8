"""Class archives do not pile up."""

import os
from pathlib import Path

from tardis_machine.lake.spark.class_archive import MAX_ARCHIVES, ClassArchive


def archives(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.jsa")}


def test_new_archive_takes_the_place_of_the_one_used_longest_ago(tmp_path: Path) -> None:
    paths = [tmp_path / f"classes-{number}.jsa" for number in range(5)]
    for age, path in enumerate(paths):
        path.touch()
        os.utime(path, (0, 1_000_000 - age))
    ClassArchive(paths[4]).read_options()
    ClassArchive(tmp_path / "classes-new.jsa").write_options()
    assert archives(tmp_path) == {"classes-4.jsa", "classes-0.jsa"}
    assert len(archives(tmp_path)) == MAX_ARCHIVES - 1
