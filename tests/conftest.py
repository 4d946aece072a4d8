"""What every test run shares."""

import gc
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial

import pytest
import structlog
from hypothesis import settings

from tardis_machine.telemetry.loggers import bridge_logs

pytest_plugins = ["tests.servers.plugin", "tests.groups"]

# A busy machine must not fail a property test; a run in CI must be the same each time.
settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("project")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the state of commands out of the home directory of whoever runs the tests."""
    folder = tempfile.mkdtemp(prefix="tardis-machine-state-")
    os.environ["XDG_STATE_HOME"] = folder
    config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))


def pytest_collection_finish() -> None:
    """Leave what exists before the first test out of every later garbage collection."""
    # 300,000 objects of modules and tests: looking at them takes 0.2 s after each broker test.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leaks_of_clients_stay_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what bus clients forget to close right after their test, not during another one."""
    yield
    if request.node.get_closest_marker("broker"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture(autouse=True)
def bridged_logs() -> None:
    """Set logs up as the first one of a process does.

    Whoever captures them before that leaves the defaults of structlog behind, which print.
    """
    bridge_logs()


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Give a test the process's logging as it is at start, and put it back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("tardis_machine")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    structlog.reset_defaults()
    yield
    root.handlers[:] = handlers
    root.level, ours.level = levels
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
