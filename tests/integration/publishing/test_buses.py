"""A server in front of buses that are missing, that refuse it, or whose disk is full."""

import http.client
import json
import threading
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from tardis_machine.model.ndjson import decode_lines
from tests.integration.publishing.machine import (
    Machine,
    Published,
    assert_equals_response,
    published,
    records_of,
    run_command,
    wait_until,
)
from tests.servers.redis import Redis

WRONG = "not-this-password"


def buses_at(port: int) -> dict[str, list[str]]:
    """Return flags for every bus that has a server."""
    key = "c2VjcmV0LWtleQ=="
    hubs = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=k;SharedAccessKey={key}"
    return {
        "Kafka": [f"--kafka-brokers=127.0.0.1:{port}", "--kafka-topic=bronze"],
        "Kinesis": [
            "--kinesis-stream=bronze",
            "--kinesis-region=us-east-1",
            f"--kinesis-endpoint-url=http://127.0.0.1:{port}",
            "--kinesis-access-key-id=AKIDTEST",
            "--kinesis-secret-access-key=test-secret",
        ],
        "NATS": [f"--nats-servers=nats://127.0.0.1:{port}", "--nats-subject=bronze"],
        "Event Hubs": [
            f"--event-hubs-connection-string={hubs};UseDevelopmentEmulator=true",
            "--event-hubs-hub=bronze",
        ],
        "Redis": ["--redis-host=127.0.0.1", f"--redis-port={port}", "--redis-stream=bronze"],
    }


def test_required_buses_that_are_down_are_all_named_and_end_the_server_with_code_3(
    cache: Path, tmp_path: Path, closed_port: int
) -> None:
    buses = buses_at(closed_port)
    flags = [flag for each in buses.values() for flag in each]
    required = ["--event-bus-startup=require", "--event-bus-startup-timeout-ms=3000"]
    machine = Machine(cache, tmp_path, *flags, *required)
    machine.start()
    assert machine.wait() == 3
    for title in buses:
        assert f"{title} is required and was not reached: " in machine.log()
    assert "test-secret" not in machine.log()


@pytest.mark.broker
def test_refused_login_is_shown_without_the_secret_and_loses_nothing(
    cache: Path, tmp_path: Path
) -> None:
    with Redis(password="main-secret") as server:
        flags = [
            "--redis-host=127.0.0.1",
            f"--redis-port={server.port}",
            "--redis-stream=bronze",
            f"--redis-password={WRONG}",
            "--redis-exclude-payloads=disconnect",
        ]
        with Machine(cache, tmp_path, *flags) as machine:
            body = machine.replay()
            wait_until(lambda: machine.bus("redis").get("state") == "degraded", "it is seen")
            assert machine.bus("redis")["lastError"]
            shown = json.dumps(machine.health()) + metrics(machine) + machine.log()
            assert WRONG not in shown
            with server.client() as client:
                client.config_set("requirepass", WRONG)
            count = body.count(b"\n")
            wait_until(lambda: machine.metric("published_total") == count, "all is delivered")
            assert machine.stop() == 0
            assert WRONG not in machine.log()


@pytest.mark.broker
def test_killed_publisher_loses_nothing_on_the_way_to_a_broker(cache: Path, tmp_path: Path) -> None:
    flags = ["--redis-host=127.0.0.1", "--redis-stream=s", "--redis-exclude-payloads=disconnect"]
    with (
        Redis() as server,
        Machine(cache, tmp_path, *flags, f"--redis-port={server.port}") as machine,
    ):
        expected = machine.replay()
        for _ in range(2):
            replaying = threading.Thread(target=machine.replay)
            replaying.start()
            machine.kill_publisher()
            replaying.join()
        assert machine.stop() == 0
        with server.client() as client:
            entries = client.xrange("s")
    events = [
        Published("", {"eventId": fields[b"eventId"].decode()}, fields[b"data"])
        for _, fields in entries
    ]
    assert machine.log().count("publisher process exited unexpectedly") == 2
    assert len(events) >= 3 * expected.count(b"\n")
    assert_equals_response(events, expected)


def metrics(machine: Machine) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{machine.port}/metrics") as response:
        return str(response.read().decode())


@pytest.mark.parametrize("command", ["serve", "publish"])
def test_help_shows_no_secret_of_the_environment(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REDIS_PASSWORD", "NATS_TOKEN", "KAFKA_SASL_PASSWORD", "EVENT_HUBS_CONNECTION"):
        monkeypatch.setenv(f"TM_{name}", WRONG)
    done = run_command(command, "--help")
    assert done.returncode == 0
    assert "--redis-password" in done.stdout
    assert WRONG not in done.stdout + done.stderr


def test_full_disk_is_said_loudly_and_every_loss_is_counted(
    cache: Path, tmp_path: Path, closed_port: int
) -> None:
    flags = [
        *buses_at(closed_port)["Redis"],
        "--event-bus-replay-max-block-ms=0",
        "--event-bus-drain-timeout-ms=200",
    ]
    with Machine(cache, tmp_path, *flags) as machine:
        assert machine.process is not None
        psutil.Process(machine.process.pid).rlimit(psutil.RLIMIT_FSIZE, (65_536, 65_536))
        machine.replay()
        wait_until(lambda: machine.metric("dropped_total") > 0, "something is lost")
        wait_until(machine.adds_up, "every event is accounted for")
        # Events were lost, and the exit code says so.
        assert machine.stop() == 4
    assert "File too large" in machine.log()


def test_stop_amid_a_response_delivers_what_the_client_got(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    flags = [f"--files-dir={bus}", "--files-exclude-payloads=disconnect"]
    with Machine(cache, tmp_path, *flags) as machine:
        bodies: list[bytes] = []
        # Ten minutes in twenty seconds, so that the end comes in between.
        reading = threading.Thread(target=lambda: bodies.append(read_what_comes(machine, speed=30)))
        reading.start()
        wait_until(lambda: machine.metric("published_total") > 100, "something is delivered")
        assert machine.stop() == 0
        reading.join()
    (body,) = bodies
    got = decode_lines(body[: body.rindex(b"\n") + 1])
    assert len(got) > 100
    assert records_of(published(bus))[: len(got)] == got


def read_what_comes(machine: Machine, **options: Any) -> bytes:
    try:
        return machine.replay(**options)
    except http.client.IncompleteRead as cut:
        return bytes(cut.partial)
