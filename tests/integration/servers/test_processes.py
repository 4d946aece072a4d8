"""What holds for every server: it is found or named as missing, it is ours, it ends with us."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.servers import places
from tests.servers.elsewhere import Elsewhere, UncontrollableServerError
from tests.servers.ports import free_port
from tests.servers.process import ServerFailedError
from tests.servers.redis import Redis

pytestmark = pytest.mark.broker

STARTS_A_SERVER = """
from tests.servers.redis import Redis
server = Redis().start()
print(server.pid, server.directory, flush=True)
input()
"""


def test_server_dies_with_a_killed_test_run(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SERVER],
        cwd=places.ROOT,
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        pid, _ = run.stdout.readline().split()
        server = psutil.Process(int(pid))
        assert server.is_running()
        run.kill()
        server.wait(240)


def test_port_of_somebody_else_is_not_taken_for_ours() -> None:
    with (
        Redis() as other,
        pytest.raises(ServerFailedError, match="exited"),
        Redis(port=other.port),
    ):
        pytest.fail("two servers on one port")


def test_closed_server_leaves_no_data() -> None:
    with Redis() as server:
        directory = server.directory
        assert (directory / "server.log").exists()
    assert not directory.exists()


def test_given_directory_is_kept(tmp_path: Path) -> None:
    with Redis(directory=tmp_path) as server, server.client() as client:
        client.set("k", "v")
    with Redis(directory=tmp_path) as server, server.client() as client:
        assert client.get("k") == b"v"


def test_free_ports_are_below_the_ephemeral_range() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < low for port in (free_port() for _ in range(20)))


@pytest.mark.parametrize("find", [places.kafka_classpath, places.kinesalite])
def test_missing_download_names_the_line_to_run(
    find: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TM_SERVERS_DIR", str(tmp_path))
    assert callable(find)
    with pytest.raises(places.MissingServerError, match=r"python -m tests\.servers\.obtain"):
        find()


def test_environment_names_a_server_that_tests_cannot_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TM_TEST_REDIS", "redis://elsewhere:6379/0")
    server = Elsewhere.from_environment("TM_TEST_REDIS")
    assert server is not None
    assert server.address == "redis://elsewhere:6379/0"
    server.heal()
    with pytest.raises(UncontrollableServerError, match="Unset TM_TEST_REDIS"):
        server.kill()
