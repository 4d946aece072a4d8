"""One small disk for everything that a server writes, and it is full."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.publishing.machine import (
    COMMAND,
    SECONDS,
    Machine,
    assert_equals_response,
    published,
    run_command,
    wait_until,
)
from tests.integration.publishing.test_adversity import minutes, outage
from tests.small_disk import fill, small_disk

LOG_MIB = 24
"""Room for the first segment of a log, and for a part of the second."""


def job_flags(cache: Path, bus: Path, disk: Path) -> list[str]:
    return [
        *("--cache-dir", str(cache), "--offline", "--exchange", "bitmex"),
        *("--symbols", "XBTUSD", "--data-types", "trade,book_change"),
        *("--from", "2024-03-01", "--to", "2024-03-01T00:10", "--job", "long"),
        *("--files-dir", str(bus), "--event-bus-spool-dir", str(disk / "spool")),
    ]


def events_of(body: bytes) -> int:
    return body.count(b"\n")


def test_full_temporary_folder_changes_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = tmp_path / "bus"
    with small_disk(3) as temporary:
        monkeypatch.setenv("TMPDIR", str(temporary))
        flags = [f"--files-dir={bus}", "--event-bus-startup=require"]
        with Machine(cache, tmp_path, *flags) as machine:
            first, publisher = minutes(machine, 0, 10), machine.publisher
            fill(temporary)
            second = minutes(machine, 0, 10)
            # The counts show that the status of the publisher still gets through.
            expected = events_of(first) + events_of(second)
            wait_until(lambda: machine.metric("published_total") == expected, "all is published")
            assert machine.publisher == publisher
            assert machine.health_check()[0] == 200
            assert machine.stop() == 0
    assert len(published(bus)) == expected


def test_killed_publisher_sends_the_backlog_of_a_full_disk_and_makes_room(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = tmp_path / "bus"
    with small_disk(LOG_MIB) as disk:
        monkeypatch.setenv("TMPDIR", str(disk))
        flags = [
            f"--files-dir={bus}",
            f"--event-bus-spool-dir={disk / 'spool'}",
            "--event-bus-replay-max-block-ms=0",
        ]
        with Machine(cache, tmp_path, *flags) as machine:
            with outage(bus):
                # Some 5 MB each.
                accepted = sum(events_of(minutes(machine, 0, 10)) for _ in range(6))
                wait_until(
                    lambda: machine.metric("enqueued_total") == accepted, "all of it is counted"
                )
                assert machine.adds_up()
                lost = machine.metric("dropped_total")
                assert lost > 0
                machine.kill_publisher()
            wait_until(lambda: len(published(bus)) == accepted - lost, "the backlog is delivered")
            wait_until(machine.adds_up, "every event is accounted for by the next publisher")
            before = len(published(bus))

            def has_room() -> bool:
                return events_of(minutes(machine, 0, 10)) <= len(published(bus)) - before

            wait_until(has_room, "what was delivered makes room")
            wait_until(machine.adds_up, "every event is accounted for, with those that came later")
            # Events were lost, and the exit code says so whichever publisher was there then.
            assert machine.stop() == 4


def test_counts_add_up_after_a_death_with_a_backlog(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    with Machine(cache, tmp_path, f"--files-dir={bus}") as machine:
        delivered = minutes(machine, 0, 10)
        wait_until(lambda: machine.metric("published_total") == events_of(delivered), "delivered")
        with outage(bus):
            waiting = minutes(machine, 5, 10)
            machine.kill_publisher()
            wait_until(lambda: machine.bus().get("queued") == events_of(waiting), "all waits")
            wait_until(machine.adds_up, "counts add up during the outage")
        wait_until(lambda: machine.metric("published_total") == events_of(waiting), "delivered")
        assert machine.adds_up()
        # What the one before delivered counts no more.
        assert machine.metric("enqueued_total") == events_of(waiting)
        assert machine.stop() == 0
    assert_equals_response(published(bus)[events_of(delivered) :], waiting)


def test_job_outlives_a_disk_that_is_full_when_it_saves_its_checkpoint(
    cache: Path, tmp_path: Path
) -> None:
    bus, errors = tmp_path / "bus", tmp_path / "errors"
    with small_disk(3) as disk, errors.open("wb") as log:
        command = [*COMMAND, "publish", *job_flags(cache, bus, disk)]
        with outage(bus):
            job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
            wait_until(lambda: b"cannot be written" in errors.read_bytes(), "its log is too large")
            # Now there is no room for a checkpoint either.
            fill(disk)
            wait_until(lambda: b"checkpoint of the job" in errors.read_bytes(), "one is not saved")
        assert job.wait(SECONDS) == 0
        checkpoint = disk / "spool" / "jobs" / "long.json"
        (progress,) = json.loads(checkpoint.read_bytes())["progress"]
    assert progress["is_done"]
    assert b"Traceback" not in errors.read_bytes()
    assert len({event.event_id for event in published(bus)}) == len(published(bus)) > 0


def test_job_goes_on_where_its_log_does_not_fit_on_the_disk(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    with small_disk(3) as disk:
        # Some 5 MB, in segments that could have 16.
        done = run_command("publish", *job_flags(cache, bus, disk))
    assert done.returncode == 0, done.stderr
    assert f"{len(published(bus)):,} events delivered" in done.stdout
    assert "No space left on device" in done.stderr
