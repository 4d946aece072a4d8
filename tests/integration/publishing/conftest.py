from pathlib import Path

import pytest

from tardis_machine.sources.simulator import SimulatorSettings, simulate


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give ten simulated minutes of bitmex, with disconnects."""
    folder = tmp_path_factory.mktemp("cache")
    simulate(
        SimulatorSettings(out=folder, minutes=10, seed=7, exchanges=("bitmex",), with_gaps=True)
    )
    return folder
