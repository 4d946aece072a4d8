"""`tardis-machine publish`: headless replays, continued jobs, events once more."""

import io
import json
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tardis_machine.sinks.dead_letters.files import letter_files
from tests.integration.publishing.machine import (
    COMMAND,
    QUICK,
    Machine,
    assert_equals_response,
    published,
    records_of,
    run_command,
    wait_until,
)
from tests.integration.publishing.test_server import block, unblock

SYMBOL = ["--exchange", "bitmex", "--symbols", "XBTUSD", "--data-types", "trade,book_change"]
TEN_MINUTES = [*SYMBOL, "--from", "2024-03-01T00:00", "--to", "2024-03-01T00:10"]


@pytest.fixture(scope="module")
def response(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Give what the server answers for the same replay."""
    with Machine(cache, tmp_path_factory.mktemp("server")) as machine:
        return machine.replay()


def flags(cache: Path, work: Path) -> list[str]:
    return [
        "--cache-dir",
        str(cache),
        "--offline",
        "--event-bus-spool-dir",
        str(work / "spool"),
        "--files-dir",
        str(work / "bus"),
        "--files-exclude-payloads",
        "disconnect",
        *QUICK,
    ]


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "publish", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_lines_of_the_documents_work_as_they_stand(tmp_path: Path) -> None:
    lines = (
        "simulate --out cache --minutes 10 --seed 7",
        "publish --cache-dir cache --offline --exchange bitmex --symbols XBTUSD "
        "--data-types trade,book_change --from 2024-03-01T00:00 --to 2024-03-01T00:10 "
        "--files-dir bus",
    )
    for line in lines:
        done = subprocess.run(
            [*COMMAND, *line.split()], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    events = published(tmp_path / "bus")
    assert f"files: {len(events):,} events delivered" in done.stdout
    assert {event.headers["payloadCase"] for event in events} == {"trade", "bookChange"}


def test_job_publishes_what_the_server_answers(
    cache: Path, tmp_path: Path, response: bytes
) -> None:
    done = run_command("publish", *TEN_MINUTES, *flags(cache, tmp_path))
    assert done.returncode == 0, done.stderr
    events = published(tmp_path / "bus")
    assert_equals_response(events, response)
    assert records_of(events)[0].exchange == "bitmex"


def test_symbols_that_never_come_are_an_error(cache: Path, tmp_path: Path) -> None:
    words = ["publish", *TEN_MINUTES, *flags(cache, tmp_path), "--symbols"]
    done = run_command(*words, "XBTUSB")
    assert done.returncode == 1
    said = "No records of bitmex XBTUSB in the whole range. Compare the symbols"
    assert said in done.stderr
    done = run_command(*words, "XBTUSD,XBTUSB")
    assert done.returncode == 0
    assert said in done.stderr
    assert len(published(tmp_path / "bus")) > 0


def test_finished_job_is_not_published_again(cache: Path, tmp_path: Path) -> None:
    words = ["publish", *TEN_MINUTES, *flags(cache, tmp_path), "--job", "march"]
    assert run_command(*words).returncode == 0
    count = len(published(tmp_path / "bus"))
    assert run_command(*words).returncode == 0
    assert len(published(tmp_path / "bus")) == count
    other = run_command(*words, "--symbols", "ETHUSD")
    assert other.returncode == 2
    assert "Job 'march' was started with other replays." in other.stderr


def test_run_without_a_job_is_a_new_one(cache: Path, tmp_path: Path) -> None:
    words = ["publish", *TEN_MINUTES, *flags(cache, tmp_path)]
    assert run_command(*words).returncode == 0
    count = len(published(tmp_path / "bus"))
    assert run_command(*words).returncode == 0
    events = published(tmp_path / "bus")
    assert len(events) == 2 * count
    assert len({event.event_id for event in events}) == count


def test_killed_job_gives_the_events_that_an_uninterrupted_one_gives(
    cache: Path, tmp_path: Path
) -> None:
    types = ["--data-types", "trade,book_change,trade_bar_10ticks,quote_10s"]
    whole = run_command("publish", *TEN_MINUTES, *types, *flags(cache, tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    words = [*TEN_MINUTES, *types, *flags(cache, tmp_path), "--job", "march"]
    state = tmp_path / "spool" / "jobs" / "march.json"
    process = start(*words)
    stream = tmp_path / "bus" / "bronze"
    wait_until(lambda: stream.exists() or process.poll() is not None, "something is published")
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = run_command("publish", *words)
    assert done.returncode == 0, done.stderr
    assert by_identity(tmp_path / "bus") == by_identity(tmp_path / "whole" / "bus")
    assert json.loads(state.read_bytes())["progress"][0]["is_done"]


def by_identity(bus: Path) -> dict[str, Any]:
    """Return the record of every event; one that came twice is the same both times."""
    events = published(bus)
    found: dict[str, Any] = {}
    for event, record in zip(events, records_of(events), strict=True):
        assert found.setdefault(event.event_id, record) == record
    return found


def test_replay_within_a_day_reads_from_midnight_on_and_publishes_what_was_asked(
    cache: Path, tmp_path: Path, response: bytes
) -> None:
    minutes = [*SYMBOL, "--from", "2024-03-01T00:08", "--to", "2024-03-01T00:10"]
    done = run_command("publish", *minutes, *flags(cache, tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Reading 8 minutes before the first event" in done.stderr
    expected = b"".join(filter(is_of_last_minutes, response.splitlines(keepends=True)))
    assert_equals_response(published(tmp_path / "bus"), expected)
    cold = run_command("publish", *minutes, *flags(cache, tmp_path / "cold"), "--no-warm-up")
    assert "Reading" not in cold.stderr
    captures = {event.event_id.count(":partial:") for event in published(tmp_path / "cold" / "bus")}
    assert captures == {0, 1}


def is_of_last_minutes(line: bytes) -> bool:
    return any(b'"localTimestamp":"2024-03-01T00:0%d' % minute in line for minute in (8, 9))


def test_continued_job_publishes_only_what_follows_the_settled_minute(
    cache: Path, tmp_path: Path, response: bytes
) -> None:
    words = [*TEN_MINUTES, *flags(cache, tmp_path), "--job", "march"]
    assert run_command("publish", *words).returncode == 0
    state = tmp_path / "spool" / "jobs" / "march.json"
    known = json.loads(state.read_bytes())
    five_past_us = 1_709_251_500_000_000
    known["progress"] = [{"settled_us": five_past_us, "is_done": False}]
    state.write_text(json.dumps(known))
    before = len(published(tmp_path / "bus"))
    assert run_command("publish", *words).returncode == 0
    again = published(tmp_path / "bus")[before:]
    expected = b"".join(
        line
        for line in response.splitlines(keepends=True)
        if b'"localTimestamp":"2024-03-01T00:0' in line
        and int(line.split(b'"localTimestamp":"2024-03-01T00:0')[1][:1]) >= 5
    )
    assert_equals_response(again, expected)


def test_job_waits_for_a_bus_that_is_down_and_drops_nothing(
    cache: Path, tmp_path: Path, response: bytes
) -> None:
    bus = tmp_path / "bus"
    block(bus)
    process = start(*TEN_MINUTES, *flags(cache, tmp_path))
    wait_until(lambda: [*tmp_path.glob("spool/logs/*/files-*.position")], "the publisher runs")
    assert process.poll() is None
    unblock(bus)
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert "lost" not in out
    assert_equals_response(published(bus), response)


def test_interrupted_job_keeps_what_it_took_and_can_go_on(
    cache: Path, tmp_path: Path, response: bytes
) -> None:
    bus = tmp_path / "bus"
    block(bus)
    words = [*TEN_MINUTES, *flags(cache, tmp_path), "--job", "march"]
    words += ["--event-bus-drain-timeout-ms", "200"]
    process = start(*words)
    wait_until((tmp_path / "spool" / "jobs" / "march.json").exists, "the job is under way")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 1
    assert "Stopped before the end. Continue with --job march." in errors
    unblock(bus)
    assert run_command("publish", *words).returncode == 0
    assert_equals_response(published(bus), response)


def test_job_file_runs_several_replays(cache: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        """
[[replay]]
exchange = "bitmex"
symbols = ["XBTUSD"]
data_types = ["trade"]
from = "2024-03-01"
to = "2024-03-01T00:02"

[[replay]]
exchange = "bitmex"
symbols = ["ETHUSD"]
data_types = ["book_change"]
from = "2024-03-01T00:02"
to = "2024-03-01T00:03"
"""
    )
    done = run_command("publish", str(job), *flags(cache, tmp_path), "--job", "both")
    assert done.returncode == 0, done.stderr
    keys = {event.key for event in published(tmp_path / "bus")}
    assert keys == {"bitmex|XBTUSD|trade", "bitmex|ETHUSD|bookChange"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "no [[replay]] or [[stream]] table"),
        ("[[replays]]\n", "unknown key 'replays'. Did you mean 'replay'?"),
        ("[[replay]]\nexchange = 1\n", "replay 1: Expected `str`, got `int`"),
        ("[[replay]]\nexchang = 'x'\n", "unknown field `exchang`"),
        ("x =", "cannot be read"),
    ],
)
def test_bad_job_file_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    job = tmp_path / "job.toml"
    job.write_text(content)
    done = run_command("publish", str(job), "--files-dir", str(tmp_path / "bus"))
    assert done.returncode == 2
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "--exchange is required."),
        ([*SYMBOL, "--from", "2024-03-01"], "--to is required."),
        (
            ["--exchange", "bitmex", "--data-types", "trades", "--from", "2024", "--to", "2025"],
            "Unknown data type 'trades'. Did you mean 'trade'?",
        ),
        ([*TEN_MINUTES, "--exchange", "bitmx"], "bitmx"),
        (["--redrive", "nowhere.tmdl"], "nowhere.tmdl does not exist."),
    ],
)
def test_bad_request_is_refused_before_anything_starts(
    tmp_path: Path, words: list[str], problem: str
) -> None:
    done = run_command("publish", *words, "--files-dir", str(tmp_path / "bus"))
    assert done.returncode == 2, done.stderr
    assert problem in done.stderr
    assert not (tmp_path / "bus").exists()


def test_stream_is_sent_once_more_under_its_old_identities(cache: Path, tmp_path: Path) -> None:
    assert run_command("publish", *TEN_MINUTES, *flags(cache, tmp_path)).returncode == 0
    stream = tmp_path / "bus" / "bronze"
    again = tmp_path / "again"
    done = run_command(
        "publish", "--redrive", str(stream), "--files-dir", str(again), "--cache-dir", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    before, after = published(tmp_path / "bus"), published(again)
    assert [event.event_id for event in after] == [event.event_id for event in before]
    assert [event.envelope for event in after] == [event.envelope for event in before]


def test_dead_letters_are_sent_once_more(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    block(bus)
    words = [*TEN_MINUTES, "--to", "2024-03-01T00:01", *flags(cache, tmp_path)]
    # Connecting fails, which is no fault of an event; so the fault is made by its age.
    unblock(bus)
    bus.mkdir()
    (bus / "bronze").write_text("in the way")
    done = run_command("publish", *words, "--event-bus-retry-max-age-ms", "1")
    assert "dead letters" in done.stdout, done.stderr
    (letters,) = letter_files(tmp_path / "spool" / "files")
    (bus / "bronze").unlink()
    done = run_command("publish", "--redrive", str(letters), *flags(cache, tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"files: {len(published(bus)):,} events delivered" in done.stdout
    assert len(published(bus)) > 100


def test_terminal_shows_how_far_how_fast_and_how_each_bus_is_doing(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    block(bus)
    words = [*TEN_MINUTES, *flags(cache, tmp_path)]
    screen, terminal = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, "publish", *words],
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    with os.fdopen(screen, "rb", buffering=0) as shown:
        lines = read_until(shown, rb"degraded: lag [1-9][\d,]{3,} \(\d+\.\d s\)")
        unblock(bus)
        assert process.wait(240) == 0
    line = lines.rpartition(b"\r\x1b[K")[2].decode()
    assert re.match(
        r"\[#* *\] \d+% \| 2024-03-01T00:0\d [\d,]+ events/s \| files degraded: lag ", line
    )


def read_until(shown: io.RawIOBase, pattern: bytes) -> bytes:
    """Return what a terminal got up to a line that matches."""
    text = b""
    while not re.search(pattern, text):
        text += shown.read(65_536) or b""
    return text
