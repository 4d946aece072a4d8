"""Ten times `kill -9` of the Spark driver while events come in, on a file and on a network bus."""

from pathlib import Path

import pytest

from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.model.settings import Secret
from tests.lake.driver_kills import Trial, run_trial
from tests.servers.redis import Redis
from tests.soak.publishing_load import make_seed

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.timeout(3600)]

KILLS = 10
BATCH = 100


def test_killed_driver_leaves_every_event_of_files_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bus, seed = tmp_path / "bus", make_seed()
    flags = ["--files-dir", str(bus)]
    trial = run_trial(FilesSettings(dir=bus), flags, tmp_path, kills=KILLS, batch=BATCH, seed=seed)
    with capsys.disabled():
        report("files", trial, seed)


@pytest.mark.broker
def test_killed_driver_leaves_every_event_of_redis_once(
    redis_server: Redis, redis_stream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, seed = redis_server.address, make_seed()
    flags = ["--redis-url", address, "--redis-stream", redis_stream]
    bus = RedisSettings(url=Secret(address), stream=redis_stream)
    trial = run_trial(bus, flags, tmp_path, kills=KILLS, batch=BATCH, seed=seed)
    with capsys.disabled():
        report("redis", trial, seed)


def report(name: str, trial: Trial, seed: int) -> None:
    """Say what happened, for the record."""
    sent = trial.sent
    lines = [
        f"{name}: {sent.deliveries:,} deliveries of {len(sent.trades):,} trades and "
        f"{len(sent.changes):,} book changes, {len(trial.killed_in)} kills, seed {seed}",
        *(f"  open batches: {', '.join(queries) or 'none'}" for queries in trial.killed_in),
    ]
    print("\n" + "\n".join(lines))  # noqa: T201
