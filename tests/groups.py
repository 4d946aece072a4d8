"""Which tests go to the same worker when several run the suite: those that share a server.

A server of the run starts once per worker that asks for it. So all tests of one server form a
group, and a group is one worker's work; tests without a server are grouped by file. Groups that
take long come first. Within a group the order stays random.

The groups follow from the fixtures of a test, which only the workers know; the first of them
writes them down for the scheduler. (Marks of pytest-xdist would do the same, but its release 3.8
loses them with pytest 9.2: https://github.com/pytest-dev/pytest-xdist/issues/1386.)
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

SERVER_SUFFIX = "_of_run"
# Three groups with Spark, which take about as long: each has a Java process of two gigabytes.
SPARK_READERS, SPARK_TABLES, OWN_SPARK = "spark-readers", "spark-tables", "own-spark"
SPARK = (SPARK_READERS, SPARK_TABLES, OWN_SPARK)
# Half of the tests with the common session, by time; the others are those of the tables.
LONG_READERS = (
    *("test_kinesis.py", "test_nats.py"),
    *("test_comparison.py", "test_live_to_silver.py", "test_rebuild.py"),
)
SLOW_FOLDERS = ("integration", "e2e", "compat", "property")
FIRST_WORKER = "gw0"
GROUPS = pytest.StashKey[Path]()


def group_of(item: pytest.Item) -> str:
    """Return the server that a test shares with others, or its file when there is none."""
    names = getattr(item, "fixturenames", ())
    if "spark" in names:
        return SPARK_READERS if item.path.name in LONG_READERS else SPARK_TABLES
    if item.get_closest_marker("spark"):
        return OWN_SPARK
    servers = [name for name in names if name.endswith(SERVER_SUFFIX)]
    return servers[0].removesuffix(SERVER_SUFFIX) if servers else str(item.path)


def rank_of(item: pytest.Item, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return how early a test's group starts, so that no long one is left for the end."""
    group = group_of(item)
    if group in SPARK:
        return 0, 0
    if group != str(item.path):
        return 1, -sizes[group]
    return 2 + all(folder not in item.path.parts for folder in SLOW_FOLDERS), 0


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Sort tests by group after they have been shuffled."""
    yield
    sizes = Counter(map(group_of, items))
    items.sort(key=lambda item: rank_of(item, sizes))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the groups down, before the worker says that it has collected."""
    given = getattr(session.config, "workerinput", {})
    if given.get("workerid") == FIRST_WORKER:
        groups = {item.nodeid: group_of(item) for item in session.items}
        Path(given["groups"]).write_text(json.dumps(groups))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker where the scheduler looks for the groups."""
    node.workerinput["groups"] = str(_groups_path(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Hand out whole groups, in the order of collection."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def schedule(self) -> None:
            self._groups = json.loads(_groups_path(config).read_text())
            super().schedule()

        def _split_scope(self, nodeid: str) -> str:
            group: str = self._groups[nodeid]
            return group

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


def _groups_path(config: pytest.Config) -> Path:
    if GROUPS not in config.stash:
        folder = tempfile.TemporaryDirectory(prefix="tm-groups-")
        config.add_cleanup(folder.cleanup)
        config.stash[GROUPS] = Path(folder.name, "groups.json")
    return config.stash[GROUPS]
