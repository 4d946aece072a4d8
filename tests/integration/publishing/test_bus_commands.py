"""`tardis-machine bus`: what waits on disk is shown, sent elsewhere or given up."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.cli.dispatch import main
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.log_writer import LogWriter
from tardis_machine.sinks.records import RecordPacker
from tardis_machine.sinks.storage.directory import LogReader, find_logs
from tardis_machine.sinks.storage.quarantine import set_aside
from tardis_machine.sinks.storage.reader import BadBytes
from tests.contract.event_logs import EventLog
from tests.contract.sinks import make_events
from tests.contract.test_memory_sink import MemorySettings
from tests.integration.publishing.machine import (
    COMMAND,
    QUICK,
    Machine,
    published,
    run_command,
    wait_until,
)
from tests.unit.sinks.delivery import missing_but, parked_after_a_step, stepping

EVENTS = 150
PRINT_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Stands between the test and the command: a process counts the memory of its starter too."""


def made(count: int = EVENTS) -> list[Event]:
    return make_events(MemorySettings().router(), count, symbols=("XBTUSD",), first=0)


def leave(work: Path, *endpoints: str) -> None:
    """Leave a log for each endpoint of the files bus, as a server does that was killed."""
    for endpoint in endpoints:
        log = EventLog(work / "spool", LogReader("files", endpoint))
        log.append(made())
        log.close()


def flags(work: Path, *more: str) -> list[str]:
    places = (f"--event-bus-spool-dir={work / 'spool'}", f"--cache-dir={work / 'cache'}")
    return [*places, "--event-bus-producer-id=tester", *QUICK, *more]


def status(work: Path, *more: str) -> dict[str, Any]:
    done = run_command("bus", "status", "--json", *flags(work, *more))
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_stranded_backlog_is_named_and_sent_to_the_endpoint_of_now(tmp_path: Path) -> None:
    leave(tmp_path, "/gone")
    now = f"--files-dir={tmp_path / 'bus'}"
    shown = run_command("bus", "status", *flags(tmp_path, now)).stdout
    assert "files at /gone" in shown
    assert f"of tester, stranded: {EVENTS} events wait" in shown
    done = run_command("bus", "redrive", "--bus", "files", *flags(tmp_path, now))
    assert done.returncode == 0, done.stderr
    assert f"{EVENTS} events for /gone go to files at {tmp_path / 'bus'}." in done.stdout
    assert f"files: {EVENTS} events delivered" in done.stdout
    sent = [event.headers["deliveryId"] for event in published(tmp_path / "bus")]
    assert sent == [event.delivery_id for event in made()]
    assert status(tmp_path, now)["backlogs"] == []


def test_backlog_is_given_up_only_when_asked_twice(tmp_path: Path) -> None:
    leave(tmp_path, "/gone")
    words = ["bus", "discard", "--bus", "files", *flags(tmp_path)]
    asked = run_command(*words)
    assert asked.returncode == 2
    assert f"This gives up {EVENTS} events of files at /gone." in asked.stderr
    assert status(tmp_path)["backlogs"][0]["waitingEvents"] == EVENTS
    done = run_command(*words, "--yes")
    assert done.returncode == 0, done.stderr
    assert f"{EVENTS} events of files at /gone were discarded." in done.stdout
    assert list(find_logs(tmp_path / "spool")) == []


def test_status_works_while_a_server_runs_and_changes_nothing(cache: Path, tmp_path: Path) -> None:
    with Machine(cache, tmp_path, f"--files-dir={tmp_path / 'bus'}") as machine:
        lines = machine.replay().count(b"\n")
        wait_until(lambda: machine.metric("published_total") >= lines, "everything is delivered")
        words = [f"--event-bus-spool-dir={tmp_path / 'spool'}", f"--files-dir={tmp_path / 'bus'}"]
        done = run_command("bus", "status", "--json", *words)
        (backlog,) = json.loads(done.stdout)["backlogs"]
        assert backlog["state"] == "active"
        assert backlog["endpoint"] == str(tmp_path / "bus")
        assert backlog["waitingEvents"] == 0
        assert backlog["settled"]["delivered"] >= lines
        refused = run_command("bus", "discard", "--bus=files", "--destination=x", "--yes", *words)
        assert refused.returncode == 2
        assert "No parked events of 'x'." in refused.stderr
        assert machine.stop() == 0


def test_status_shows_dead_letters_quarantine_and_old_spools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "spool"
    letters = root / "files" / "dead-letter-2024-03-01.tmdl"
    letters.parent.mkdir(parents=True)
    letters.write_text("{}\nAA==\n" * 3)
    set_aside(root, "abc", BadBytes(4096, 4106, b"0123456789", "its checksum is wrong"))
    write_segment(root / "redis" / "spool" / "0", 5)
    assert main(["bus", "status", *flags(tmp_path)], {}) == 0
    shown = capsys.readouterr().out
    assert f"Dead letters of files: 3 events in {letters}." in shown
    assert "Quarantine: 10 bytes of log abc at byte 4,096: its checksum is wrong" in shown
    assert f"Spool of the version before: redis, 0.2 MB in {root / 'redis'}" in shown
    assert "No logs: nothing waits." in shown


def test_status_shows_the_destinations_with_most_parked_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = EventLog(tmp_path / "spool", LogReader("files", "/gone"))
    symbols = [f"S{number}" for number in range(12)]
    settings = FilesSettings(dir=Path("/gone"), stream_template="bronze.{{symbol}}")
    bus = stepping(missing_but("XBTUSD"), tmp_path / "spool", settings, log)
    router = settings.router()
    log.append(make_events(router, 29, symbols=symbols, first=0))
    wait_until(lambda: parked_after_a_step(bus) == 29, "all are parked")
    bus.close()
    log.close()
    assert main(["bus", "status", *flags(tmp_path)], {}) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if "parked for" in line]
    assert [line.split(":")[0].split()[-1] for line in shown[:6]] == [
        f"bronze.S{number}" for number in (0, 1, 2, 3, 4, 10)
    ]
    assert shown[10:] == ["    parked for 2 more destinations: 4 events (--json lists all)"]


def test_status_adds_up_the_logs_of_an_endpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path, "/a", "/b", "/a")
    assert main(["bus", "status", "--json", *flags(tmp_path, "--files-dir=/b")], {}) == 0
    found = {each["endpoint"]: each for each in json.loads(capsys.readouterr().out)["buses"]}
    assert {name: each["waitingEvents"] for name, each in found.items()} == {"/a": 300, "/b": 150}
    assert {name: each["isStranded"] for name, each in found.items()} == {"/a": True, "/b": False}
    assert found["/a"]["lagSeconds"] >= found["/b"]["lagSeconds"] > 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["redrive"], "Nothing to send: give --bus with a stranded backlog, or the path"),
        (["redrive", "--bus", "file"], "Unknown bus 'file'. Did you mean 'files'?"),
        (["redrive", "--bus", "kafka"], "Kafka is off, so nothing can be sent to it. Set kafka-"),
        (["discard", "--bus", "kafka"], "kafka has no stranded events. To see what waits:"),
        (
            ["discard", "--bus", "files"],
            "--for-endpoint is required: files has stranded events for '/a' (150 events), '/b' (15",
        ),
        (
            ["discard", "--bus", "files", "--for-endpoint", "/c"],
            "files has no stranded events for '/c', only for '/a' (150 events)",
        ),
        (
            ["discard", "--bus", "files", "--destination", "bronze"],
            "No parked events of 'bronze'. To see what waits: tardis-machine bus status",
        ),
        (["redrive", "nowhere", "--files-dir", "x"], "nowhere does not exist."),
    ],
)
def test_bad_request_says_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    leave(tmp_path, "/a", "/b")
    assert main(["bus", *words, *flags(tmp_path)], {}) == 2
    assert problem in capsys.readouterr().err


def test_stored_events_are_sent_again_without_being_loaded(tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    write_segment(stored, 500)
    (first,) = stored.glob("*.log")
    # The same segment under other names: what counts is the size.
    copies = 25
    for number in range(2, copies + 1):
        os.link(first, stored / f"{number:020d}.log")
    assert copies * first.stat().st_size > 400e6
    words = ["bus", "redrive", str(stored), f"--files-dir={tmp_path / 'bus'}", *flags(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", PRINT_PEAK, *COMMAND, *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert f"files: {copies * 500:,} events delivered" in done.stdout
    # Of the command and of its publisher process, whichever needed more.
    peak_kilobytes = int(done.stdout.splitlines()[-1])
    assert peak_kilobytes * 1024 < 200e6


def write_segment(directory: Path, count: int) -> None:
    """Write large events, each as a newer version may: with a field that nobody knows."""
    unknown_field = b"\xa2\x06\x80\x80\x02" + bytes(32_768)
    large = [msgspec.structs.replace(each, data=each.data + unknown_field) for each in made(count)]
    writer = LogWriter(directory, segment_bytes=1 << 30)
    packer = RecordPacker(Headers({}))
    for start in range(0, count, 50):
        writer.append(packer.pack(large[start : start + 50]))
    writer.close()
