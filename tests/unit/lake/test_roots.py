"""Roots of lakes: folders and URIs, and what cannot be one."""

from pathlib import Path

import pytest

from tardis_machine.lake.roots import absolute_root, is_local, path_of
from tardis_machine.model.errors import SettingsError


@pytest.mark.parametrize("root", ["/a/b", "file:/a/b", "/a/b/"])
def test_folder_is_an_absolute_path(root: str) -> None:
    assert absolute_root(root) == "/a/b"
    assert is_local(absolute_root(root))


def test_relative_folder_is_below_the_working_directory() -> None:
    assert absolute_root("a lake") == str(Path.cwd() / "a lake")


@pytest.mark.parametrize("root", ["dbfs:/x", "hdfs:/x", "s3a://bucket/x", "file:///x"])
def test_uri_stays_one(root: str) -> None:
    assert absolute_root(f"{root}/") == root
    assert not is_local(root)


@pytest.mark.parametrize("name", ["a%20b", "a[1]", "{a}", "a*", "a?", "a`b", "it's"])
def test_characters_that_readers_would_interpret_are_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"cannot have .* in its path"):
        absolute_root(f"/lakes/{name}")


def test_file_as_spark_names_it_is_found_on_disk() -> None:
    for slashes in ("/", "///"):
        assert path_of(f"file:{slashes}a%20lake/x.parquet") == "/a lake/x.parquet"
    assert path_of("s3a://bucket/a%20lake/x.parquet") == "s3a://bucket/a lake/x.parquet"
