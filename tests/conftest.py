"""What every test run shares."""

import os

from hypothesis import settings

pytest_plugins = ["tests.servers.plugin"]

# A busy machine must not fail a property test; a run in CI must be the same each time.
settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("project")
