"""Folders of the user on each platform."""

from pathlib import Path

import pytest

from tardis_machine.model.user_folders import cache_folder

HOME = Path.home()


@pytest.mark.parametrize(
    ("platform", "environment", "folder"),
    [
        ("linux", {}, HOME / ".cache/tardis-machine"),
        ("linux", {"XDG_CACHE_HOME": "/elsewhere"}, Path("/elsewhere/tardis-machine")),
        ("linux", {"XDG_CACHE_HOME": "relative"}, HOME / ".cache/tardis-machine"),
        ("linux", {"XDG_CACHE_HOME": ""}, HOME / ".cache/tardis-machine"),
        ("darwin", {"XDG_CACHE_HOME": "/elsewhere"}, HOME / "Library/Caches/tardis-machine"),
        ("win32", {"LOCALAPPDATA": "/local"}, Path("/local/tardis-machine")),
        ("win32", {}, HOME / "AppData/Local/tardis-machine"),
    ],
)
def test_cache_folder_follows_the_platform(
    platform: str, environment: dict[str, str], folder: Path
) -> None:
    assert cache_folder(environment, platform) == folder
