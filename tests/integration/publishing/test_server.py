"""A server that publishes what its clients ask for, while things go wrong."""

import asyncio
import json
import signal
import threading
import time
import urllib.error
from pathlib import Path

import aiohttp
import pytest

from tardis_machine.bronze.envelope import parse_event
from tardis_machine.model.ndjson import decode_lines
from tests.integration.publishing.machine import (
    Machine,
    assert_equals_response,
    published,
    records_of,
    replay_options,
    wait_until,
)
from tests.servers.exchange_paths import exchange_paths


def lines_in(body: bytes) -> int:
    return body.count(b"\n")


def block(bus: Path) -> None:
    """Make the directory of the bus unusable."""
    if bus.exists():
        bus.rename(bus.with_suffix(".away"))
    bus.write_text("in the way")


def unblock(bus: Path) -> None:
    away = bus.with_suffix(".away")
    if away.exists():
        exchange_paths(bus, away)
        away.unlink()
    else:
        bus.unlink()


def test_bus_receives_what_the_client_receives(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    with Machine(cache, tmp_path, f"--files-dir={bus}", "--files-exclude-payloads=disconnect") as m:
        body = m.replay()
        assert m.stop() == 0
    assert lines_in(body) > 10_000
    events = published(bus)
    assert_equals_response(events, body)
    assert len({event.event_id for event in events}) == len(events)
    assert events[0].headers["payloadCase"] == "bookChange"
    assert '"delivered": ' in m.log()


async def read_websocket(port: int, options: dict[str, object]) -> bytes:
    url = f"ws://127.0.0.1:{port + 1}/ws-replay-normalized"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, params={"options": json.dumps(options)}) as socket,
    ):
        return b"".join([str(message.data).encode() + b"\n" async for message in socket])


def test_websocket_and_computed_types_are_published_too(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    options = replay_options(
        to="2024-03-01T00:02", dataTypes=["trade", "book_snapshot_3_1s", "quote", "trade_bar_10s"]
    )
    with Machine(cache, tmp_path, f"--files-dir={bus}", "--files-exclude-payloads=disconnect") as m:
        body = asyncio.run(read_websocket(m.port, options))
        assert m.stop() == 0
    assert_equals_response(published(bus), body)
    cases = {event.headers["payloadCase"] for event in published(bus)}
    assert cases == {"trade", "bookSnapshot", "quote", "tradeBar"}


def test_disconnects_are_published_although_the_client_does_not_see_them(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    with Machine(cache, tmp_path, f"--files-dir={bus}") as machine:
        body = machine.replay()
        shown = machine.replay(withDisconnectMessages=True)
        assert machine.stop() == 0
    assert b'"type":"disconnect"' not in body
    hidden = shown.count(b'"type":"disconnect"')
    assert hidden > 0
    disconnects = [record for record in records_of(published(bus)) if record.type == "disconnect"]
    assert len(disconnects) == 2 * hidden


def test_error_that_ends_a_stream_is_published(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    with Machine(cache, tmp_path, f"--files-dir={bus}") as machine:
        with pytest.raises(urllib.error.HTTPError) as caught:
            machine.replay(to="2024-03-01T00:12")
        message = json.load(caught.value)["message"]
        assert machine.stop() == 0
    (error,) = [record for record in records_of(published(bus)) if record.type == "error"]
    assert error.details == message


def test_bus_down_at_the_start_stops_nobody_and_gets_everything_later(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    block(bus)
    with Machine(cache, tmp_path, f"--files-dir={bus}") as machine:
        body = machine.replay()
        wait_until(lambda: machine.bus().get("state") == "degraded", "the fault is seen")
        assert "cannot be created" in machine.bus()["lastError"]
        unblock(bus)
        wait_until(lambda: machine.bus().get("state") == "up", "the bus is up")
        assert machine.stop() == 0
    records = [r for r in records_of(published(bus)) if r.type != "disconnect"]
    assert records == decode_lines(body)


def test_required_bus_that_is_down_ends_the_server_with_code_3(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    block(bus)
    machine = Machine(
        cache,
        tmp_path,
        f"--files-dir={bus}",
        "--event-bus-startup=require",
        "--event-bus-startup-timeout-ms=200",
    )
    machine.start()
    assert machine.wait() == 3
    assert "Files is required and was not reached: connect: " in machine.log()


def test_events_of_a_long_outage_wait_in_the_log_and_are_delivered_in_order(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    block(bus)
    flags = ["--files-exclude-payloads=disconnect"]
    with Machine(cache, tmp_path, f"--files-dir={bus}", *flags) as machine:
        body = machine.replay()
        wait_until(lambda: machine.bus().get("queued", 0) >= lines_in(body), "events wait")
        unblock(bus)
        wait_until(lambda: machine.metric("published_total") == lines_in(body), "all is delivered")
        assert machine.metric("queue_events") == 0
        assert machine.metric("dropped_total") == 0
        assert machine.stop() == 0
    assert_equals_response(published(bus), body)


def test_outage_in_the_middle_loses_and_reorders_nothing(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    flags = ["--files-exclude-payloads=disconnect"]
    with Machine(cache, tmp_path, f"--files-dir={bus}", *flags) as machine:
        for _ in range(3):
            replaying = threading.Thread(target=machine.replay)
            replaying.start()
            block(bus)
            replaying.join()
            unblock(bus)
        body = machine.replay()
        count = 4 * lines_in(body)
        wait_until(lambda: machine.metric("published_total") >= count, "all is delivered")
        assert machine.stop() == 0
    assert_equals_response(published(bus), body)


def test_stop_under_load_delivers_everything_and_ends_quickly(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    with Machine(cache, tmp_path, f"--files-dir={bus}", "--files-exclude-payloads=disconnect") as m:
        body = m.replay()
        started = time.monotonic()
        assert m.stop() == 0
        assert time.monotonic() - started < 20
    assert_equals_response(published(bus), body)


def test_stop_during_an_outage_keeps_everything_for_the_next_start(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    block(bus)
    flags = [
        f"--files-dir={bus}",
        "--event-bus-drain-timeout-ms=300",
        "--files-exclude-payloads=disconnect",
    ]
    with Machine(cache, tmp_path, *flags) as machine:
        body = machine.replay()
        started = time.monotonic()
        assert machine.stop() == 0
        assert time.monotonic() - started < 20
    unblock(bus)
    with Machine(cache, tmp_path, *flags) as machine:
        wait_until(lambda: machine.metric("published_total") == lines_in(body), "all is delivered")
        assert machine.stop() == 0
    events = published(bus)
    assert len(events) == lines_in(body)
    assert_equals_response(events, body)


def test_second_signal_cuts_the_drain_short(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    block(bus)
    flags = [f"--files-dir={bus}", "--event-bus-drain-timeout-ms=600000"]
    with Machine(cache, tmp_path, *flags) as machine:
        body = machine.replay()
        machine.signal(signal.SIGTERM)
        with pytest.raises(Exception, match="timed out"):
            machine.wait(1)
        machine.signal(signal.SIGTERM)
        assert machine.wait() == 0
    report = next(line for line in machine.log().splitlines() if "publisher stopped" in line)
    assert json.loads(report)["left"] >= lines_in(body)


def test_kill_loses_no_accepted_event(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    block(bus)
    flags = [f"--files-dir={bus}", "--files-exclude-payloads=disconnect"]
    with Machine(cache, tmp_path, *flags) as machine:
        body = machine.replay()
        machine.kill()
    unblock(bus)
    with Machine(cache, tmp_path, *flags) as machine:
        wait_until(lambda: machine.metric("published_total") == lines_in(body), "all is delivered")
        assert machine.stop() == 0
    assert_equals_response(published(bus), body)


def test_killed_publisher_is_replaced_and_nobody_notices(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    with Machine(cache, tmp_path, f"--files-dir={bus}", "--files-exclude-payloads=disconnect") as m:
        expected = m.replay()
        for _ in range(4):
            bodies: list[bytes] = []
            replaying = threading.Thread(target=lambda: bodies.append(m.replay()))  # noqa: B023
            replaying.start()
            m.kill_publisher()
            replaying.join()
            assert bodies == [expected]
        assert m.stop() == 0
    events = published(bus)
    assert_equals_response(events, expected)
    assert m.log().count("publisher process exited unexpectedly") == 4


def test_log_that_cannot_be_written_ends_the_start_with_what_to_do(
    cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "spool").write_text("in the way")
    machine = Machine(cache, tmp_path, f"--files-dir={tmp_path / 'bus'}")
    machine.start()
    assert machine.wait() == 1
    assert "Set event-bus-spool-dir to a writable directory." in machine.log()


def test_dead_bus_does_not_hold_up_a_healthy_one(
    cache: Path, tmp_path: Path, closed_port: int
) -> None:
    bus, config = tmp_path / "bus", tmp_path / "machine.toml"
    config.write_text("[redis]\nqueue_max_messages = 1000\n")
    flags = [
        f"--config={config}",
        f"--files-dir={bus}",
        "--files-exclude-payloads=disconnect",
        "--redis-host=127.0.0.1",
        f"--redis-port={closed_port}",
        "--redis-stream=bronze",
        "--event-bus-drain-timeout-ms=300",
    ]
    with Machine(cache, tmp_path, *flags) as machine:
        body = machine.replay()
        wait_until(
            lambda: (
                machine.bus("files").get("queued") == 0 and len(published(bus)) == lines_in(body)
            ),
            "the healthy bus has everything",
        )
        waiting = machine.bus("redis")["queued"]
        assert waiting >= lines_in(body)
        assert machine.stop() == 0
    assert_equals_response(published(bus), body)


def test_events_that_a_bus_leaves_out_are_counted(cache: Path, tmp_path: Path) -> None:
    # Nobody takes quotes, so nobody encodes them.
    flags = [f"--files-dir={tmp_path / 'bus'}", "--files-include-payloads=trade"]
    flags += ["--console-enable", "--console-include-payloads=bookChange"]
    with Machine(cache, tmp_path, *flags) as machine:
        records = decode_lines(machine.replay(dataTypes=["trade", "book_change", "quote"]))
        # Nothing waits before the publisher has told of it, either.
        wait_until(
            lambda: machine.metric("enqueued_total") >= 2 * len(records), "both buses tell of it"
        )
        wait_until(lambda: machine.metric("queue_events") == 0, "all is delivered")
        assert machine.metric("filtered_total") >= len(records)
        wait_until(machine.adds_up, "every event is accounted for")
        assert machine.stop() == 0


def test_workers_have_producer_ids_of_their_own(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    flags = ["--workers=2", "--event-bus-producer-id=host", "--files-meta-headers-prefix=meta-"]
    with Machine(cache, tmp_path, f"--files-dir={bus}", *flags) as machine:
        threads = [threading.Thread(target=machine.replay) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert machine.metric("enqueued_total") > 0
        wait_until(machine.adds_up, "every event is accounted for")
        assert machine.stop() == 0
    sources = {parse_event(event.envelope).source for event in published(bus)}
    assert sources == {"host-w0", "host-w1"}


def test_two_servers_share_a_folder_without_sharing_a_log(cache: Path, tmp_path: Path) -> None:
    first = ["--console-enable"]
    with Machine(cache, tmp_path, *first), Machine(cache, tmp_path, *first) as second:
        second.replay(to="2024-03-01T00:01")
        owners = [json.loads(path.read_bytes()) for path in tmp_path.glob("spool/logs/*/owner")]
        assert len({owner["instance"] for owner in owners}) == 2
