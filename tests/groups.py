"""Which tests go to the same worker when several run the suite: those that share a server.

A server of the run starts once per worker that asks for it. So all tests of one server form a
group, and a group is one worker's work; tests without a server are grouped by file. Groups that
take long come first. Within a group the order is random.

The groups follow from the fixtures a test uses, which only the workers know; the first of them
writes them down for the scheduler. (xdist_group marks would do the same, but pytest-xdist 3.8
loses them with pytest 9.2: https://github.com/pytest-dev/pytest-xdist/issues/1386.)
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

SERVER_SUFFIX = "_of_run"
# The longest first, so that no worker begins one when the others are done.
LONG = ("spark", "spark-processes")


def group_of(item: pytest.Item) -> str:
    """Return the server that a test shares with others, or its file when there is none."""
    names = getattr(item, "fixturenames", ())
    if "spark" in names:
        return "spark"
    if item.get_closest_marker("spark"):
        # They start a Spark of their own: one of them at a time is enough for a small machine.
        return "spark-processes"
    servers = [name for name in names if name.endswith(SERVER_SUFFIX)]
    return servers[0].removesuffix(SERVER_SUFFIX) if servers else str(item.path)


def rank_of(item: pytest.Item) -> int:
    """Return the place of a test's group among the groups."""
    group = group_of(item)
    if group in LONG:
        return LONG.index(group)
    return len(LONG) + group.endswith(".py")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Sort tests by group after they have been shuffled."""
    yield
    items.sort(key=rank_of)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the groups down for the scheduler, in the first worker."""
    given = getattr(session.config, "workerinput", {})
    if given.get("workerid") == "gw0":
        groups = {item.nodeid: group_of(item) for item in session.items}
        Path(given["groups"]).write_text(json.dumps(groups))


def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker where the scheduler looks for the groups."""
    node.workerinput["groups"] = str(groups_path(node.config))


def groups_path(config: pytest.Config) -> Path:
    """Return the file of this run."""
    if PATH not in config.stash:
        folder = tempfile.TemporaryDirectory(prefix="tm-groups-")
        config.add_cleanup(folder.cleanup)
        config.stash[PATH] = Path(folder.name, "groups.json")
    return config.stash[PATH]


PATH = pytest.StashKey[Path]()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Give whole groups to workers, in the order of collection."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def schedule(self) -> None:
            self._groups = json.loads(groups_path(config).read_text())
            super().schedule()

        def _split_scope(self, nodeid: str) -> str:
            return self._groups[nodeid]

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)
