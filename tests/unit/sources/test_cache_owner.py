"""Whose cache it is: the user's alone, and nobody else's."""

import os
import stat
from pathlib import Path

import pytest

from tardis_machine.app.machine import TardisMachine
from tardis_machine.model.errors import SettingsError
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.cache import own_cache
from tardis_machine.sources.settings import ArchiveSettings
from tests.servers.ports import free_ports

STRANGER = 54_321


@pytest.fixture
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "tardis-machine"


def give_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a folder belong to another user than the one who asks."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    if os.geteuid() == 0:
        os.chown(folder, STRANGER, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


async def test_default_folder_is_for_the_user_alone(default: Path) -> None:
    settings = ArchiveSettings(offline=True)
    assert settings.cache_dir == default
    async with ArchiveSource(settings):
        assert mode(default) == 0o700


def test_default_folder_that_others_may_read_is_closed_to_them(default: Path) -> None:
    default.mkdir(parents=True, mode=0o755)
    own_cache(default)
    assert mode(default) == 0o700


async def test_default_folder_of_another_user_is_refused_at_the_start(
    default: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_away(default, monkeypatch)
    with pytest.raises(SettingsError, match=r"belongs to another user .* --cache-dir"):
        await TardisMachine(port=free_ports(), offline=True).start()


def test_folder_that_another_user_made_in_a_shared_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".tardis-cache"
    folder.mkdir()
    tmp_path.chmod(0o1777)
    own_cache(folder)
    give_away(folder, monkeypatch)
    with pytest.raises(SettingsError, match="belongs to another user"):
        own_cache(folder)


def test_chosen_folder_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "volume"
    give_away(folder, monkeypatch)
    own_cache(folder)
    assert mode(folder) == 0o755


def test_default_folder_that_cannot_be_made_is_no_error_yet(
    tmp_path: Path, default: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("a file")
    own_cache(default)
