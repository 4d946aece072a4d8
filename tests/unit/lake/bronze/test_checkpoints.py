"""Which checkpoint a bus continues."""

import pytest

from tardis_machine.lake.bronze.checkpoints import BusNote, choose_folder
from tardis_machine.lake.errors import DataLossError

QUERY = "ingest-kafka"


class Checkpoints:
    """Folders and their notes."""

    def __init__(self, *old: str) -> None:
        self.notes: dict[str, BusNote] = {}
        self._folders = set(old)

    def use(self, bus: BusNote, *, fails: bool = True) -> str:
        folder = choose_folder(
            QUERY, bus, self.notes.get, has_old=QUERY in self._folders, fails_on_loss=fails
        )
        self.notes[folder] = bus
        return folder


def test_every_endpoint_has_its_own_folder() -> None:
    checkpoints = Checkpoints()
    one, other = (checkpoints.use(BusNote(name)) for name in ("one", "other"))
    assert one != other
    assert checkpoints.use(BusNote("one")) == one
    assert one.startswith(f"{QUERY}-")


def test_folder_of_the_version_before_goes_to_the_first_that_comes() -> None:
    checkpoints = Checkpoints(QUERY)
    assert checkpoints.use(BusNote("one")) == QUERY
    assert checkpoints.use(BusNote("other")) != QUERY
    assert checkpoints.use(BusNote("one")) == QUERY


def test_new_topic_continues_the_folder() -> None:
    checkpoints = Checkpoints()
    first = checkpoints.use(BusNote("one", {"a": "1"}))
    assert checkpoints.use(BusNote("one", {"a": "1", "b": "2"})) == first


def test_topic_made_anew_is_an_error_or_begins_a_new_folder() -> None:
    checkpoints = Checkpoints()
    first = checkpoints.use(BusNote("one", {"a": "1", "b": "1"}))
    anew = BusNote("one", {"a": "2", "b": "1"})
    with pytest.raises(DataLossError, match=r"a was deleted and recreated.*--fail-on-data-loss"):
        checkpoints.use(anew)
    second = checkpoints.use(anew, fails=False)
    assert second != first
    assert checkpoints.use(anew) == second
