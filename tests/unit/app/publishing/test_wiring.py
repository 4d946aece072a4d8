"""Where publishing keeps what it has to remember, and where it was before."""

from pathlib import Path

import pytest

from tardis_machine.app.publishing.wiring import old_places, work_directory
from tardis_machine.app.settings.loading import load_settings
from tardis_machine.buses.registry import PublishingSettings

CACHE = Path("/cache")


def load(*words: str, **environ: str) -> PublishingSettings:
    return load_settings(PublishingSettings, words, environ).settings


@pytest.mark.parametrize(
    ("state_home", "expected"),
    [
        ("/state", "/state/tardis-machine/event-bus"),
        (None, "/me/.local/state/tardis-machine/event-bus"),
    ],
)
def test_state_is_kept_where_the_system_wants_it(
    monkeypatch: pytest.MonkeyPatch, state_home: str | None, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/me")
    monkeypatch.delenv("XDG_STATE_HOME")
    if state_home:
        monkeypatch.setenv("XDG_STATE_HOME", state_home)
    assert work_directory(load()) == Path(expected)
    assert old_places(load(), CACHE) == (Path(expected), CACHE / "event-bus")


def test_directory_that_was_given_is_the_only_place_but_for_those_of_single_buses() -> None:
    given = load("--event-bus-spool-dir=/given")
    assert work_directory(given) == Path("/given")
    assert old_places(given, CACHE) == (Path("/given"),)
    own = load("--event-bus-spool-dir=/given", "--files-dir=/bus", TM_FILES_SPOOL_DIR="/own")
    assert old_places(own, CACHE) == (Path("/given"), Path("/own"))
