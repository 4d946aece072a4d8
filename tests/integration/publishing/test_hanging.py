"""A publisher process that does not move any more, which only its parent can see."""

import signal
from pathlib import Path

import psutil

from tardis_machine.app.publishing.bootstrap import Bootstrap
from tardis_machine.app.publishing.wiring import PROCESS_MODULE, publisher_client
from tardis_machine.app.settings.keywords import settings_of
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.sinks.publisher.process import running_process
from tardis_machine.telemetry.logs import LogSettings
from tests.integration.publishing.machine import Machine, published, wait_until
from tests.unit.sinks.publisher.test_client import lines

SILENT_SECONDS = 3.0
"""Long enough for a busy machine, where a process says every second that it runs."""


async def test_hanging_publisher_is_killed_and_its_successor_delivers(tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    settings = settings_of(PublishingSettings, {"files": {"dir": str(bus)}})
    bootstrap = Bootstrap(settings, LogSettings())
    async with running_process(
        PROCESS_MODULE, bootstrap, tmp_path / "work", 30, SILENT_SECONDS
    ) as process:
        assert process.process_id is not None
        first = psutil.Process(process.process_id)
        async with publisher_client(process.address, settings) as client:
            assert client is not None
            stream = client.stream(Origin.REPLAY, {}, waits=True)
            await stream.publish(lines(100))
            await client.wait_until_settled()
            first.send_signal(signal.SIGSTOP)
            await stream.publish(lines(100, first=100))
            await client.wait_until_settled()
            stream.close()
        assert process.process_id != first.pid
        assert not first.is_running()
    assert not process.has_lost_events
    assert len(published(bus)) == 200


def test_exit_code_tells_of_losses_also_where_the_publisher_cannot(
    cache: Path, tmp_path: Path
) -> None:
    flags = [
        f"--files-dir={tmp_path / 'bus'}",
        "--event-bus-replay-max-block-ms=0",
        "--event-bus-drain-timeout-ms=100",
    ]
    with Machine(cache, tmp_path, *flags) as machine:
        assert machine.process is not None
        psutil.Process(machine.process.pid).rlimit(psutil.RLIMIT_FSIZE, (65_536, 65_536))
        machine.replay()
        wait_until(lambda: machine.metric("dropped_total") > 0, "something is lost")
        publisher = machine.publisher
        assert publisher is not None
        publisher.suspend()
        assert machine.stop() == 4
    assert "ended without a final report" in machine.log()
