"""Configuration errors: all at once, before a port is bound, and without secrets."""

import socket
from pathlib import Path

import pytest

from tardis_machine import TardisMachine
from tardis_machine.model.errors import SettingsError
from tests.integration.publishing.machine import run_command


def test_all_errors_come_in_one_report_before_a_port_is_bound(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_command(
            "serve",
            f"--port={taken.getsockname()[1]}",
            "--files-dir=x",
            "--files-stream=a/b",
            "--files-include-payloads=nope",
            "--event-bus-overflow=spil",
            "--redis-host=h",
            "--redis-password=top-secret-text",
        )
    assert done.returncode == 2
    report = done.stderr
    assert 'files-stream: "a/b" is not a valid stream name' in report
    assert "Unknown payload case(s) for files-include-payloads: nope." in report
    assert "event-bus-overflow must be one of spill, block, drop-oldest, drop-newest." in report
    assert "redis-stream is required" in report
    assert "top-secret-text" not in report + done.stdout
    assert "Cannot listen" not in report


def test_unknown_option_is_refused_with_the_nearest_one() -> None:
    done = run_command("serve", "--files-dirr=x")
    assert done.returncode == 2
    assert "Did you mean '--files-dir'?" in done.stderr


def test_address_with_a_password_is_refused_at_start_and_not_shown() -> None:
    done = run_command(
        "serve",
        "--redis-host=redis://:hunter2@h",
        "--redis-stream=s",
        "--nats-servers=u:hunter2@h",
        "--nats-subject=s",
        "--kafka-sasl-password",
        "-hunter2",
        "--nats-token",
        "one",
        "hunter2",
        "--redis-password-file=hunter2",
    )
    assert done.returncode == 2
    assert "hunter2" not in done.stderr + done.stdout
    assert sorted(done.stderr.splitlines()) == [
        "--redis-password-file: the file that it names cannot be read: No such file or directory.",
        "Option '--kafka-sasl-password' requires a value; use '--kafka-sasl-password=…' for one "
        "that starts with a dash.",
        "Unexpected argument after '--nats-token'; put a value with blanks in quotes.",
        "nats-servers must not contain credentials: use nats-user and nats-pass.",
        "redis-host must be a host name or an IP address: use redis-url for a URL.",
    ]


def test_option_of_a_bus_that_is_off_is_only_warned_of(tmp_path: Path) -> None:
    done = run_command(
        "publish", "--files-stream=s", "--exchange=bitmex", f"--cache-dir={tmp_path}"
    )
    assert done.returncode == 2
    assert "publish requires a bus: set one of " in done.stderr


def test_python_callers_may_use_the_shorthand_for_one_bus(tmp_path: Path) -> None:
    directory = str(tmp_path)
    short = TardisMachine(event_bus={"provider": "files", "dir": directory})
    camel = TardisMachine(eventBus={"provider": "files", "dir": directory})
    long = TardisMachine(files={"dir": directory})
    assert short.settings == camel.settings == long.settings
    assert [bus.bus for bus in short.settings.publishing.active] == ["files"]


def test_shorthand_keeps_the_options_of_delivery_apart(tmp_path: Path) -> None:
    machine = TardisMachine(
        event_bus={"provider": "files", "dir": str(tmp_path), "queueMaxMessages": 7}
    )
    assert machine.settings.publishing.event_bus.queue_max_messages == 7


def test_unknown_provider_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match="Did you mean 'files'"):
        TardisMachine(event_bus={"provider": "fils"})


def test_event_hubs_may_be_written_in_camel_case() -> None:
    with pytest.raises(SettingsError) as caught:
        TardisMachine(eventHubs={"connectionStrin": "x"})
    assert "event_hubs.connection_string" in str(caught.value)
