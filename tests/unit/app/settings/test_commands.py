"""What settings of different groups must not say together."""

from pathlib import Path

import pytest

from tardis_machine.app.settings.commands import PublishSettings, ServeSettings
from tardis_machine.app.settings.keywords import settings_of
from tardis_machine.model.errors import SettingsError


@pytest.mark.parametrize("command", [ServeSettings, PublishSettings])
def test_recordings_are_kept_apart_from_the_cache(command: type, tmp_path: Path) -> None:
    options = {"cache_dir": tmp_path, "record": tmp_path / "." / "own" / ".."}
    with pytest.raises(SettingsError, match="record must be another directory than cache_dir"):
        settings_of(command, options)
    assert settings_of(command, options | {"record": tmp_path / "own"})
