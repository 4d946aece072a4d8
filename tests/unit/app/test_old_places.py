"""Where the version before kept its spools and jobs."""

import os
import tempfile
from pathlib import Path

import pytest

from tardis_machine.app.publishing.wiring import old_folders
from tardis_machine.model.user_folders import cache_folder


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default cache of the version before."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / ".tardis-cache"


def test_old_default_is_looked_at_beside_the_new_one(shared: Path) -> None:
    assert old_folders(cache_folder()) == [cache_folder() / "event-bus"]
    shared.mkdir()
    assert old_folders(cache_folder()) == [cache_folder() / "event-bus", shared / "event-bus"]


def test_old_default_is_not_looked_at_where_a_cache_was_chosen(
    shared: Path, tmp_path: Path
) -> None:
    shared.mkdir()
    assert old_folders(tmp_path / "mine") == [tmp_path / "mine" / "event-bus"]


def test_old_default_of_another_user_is_not_trusted(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: shared.stat().st_uid + 1)
    assert old_folders(cache_folder()) == [cache_folder() / "event-bus"]
