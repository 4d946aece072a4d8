"""What the first design of delivery did not survive, against real servers and their files."""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil

from tardis_machine.sinks.publisher.publisher import waiting_events
from tardis_machine.sinks.publisher.supervision import UNSTABLE_DEATHS
from tardis_machine.sinks.storage.chunks import HEAD_BYTES
from tardis_machine.sinks.storage.directory import find_logs
from tardis_machine.sinks.storage.quarantine import list_quarantine
from tardis_machine.sinks.storage.reader import read_heads
from tardis_machine.sinks.storage.segments import list_segments
from tests.integration.publishing.machine import (
    Machine,
    Published,
    assert_equals_response,
    published,
    records_of,
    wait_until,
)
from tests.servers.redis import Redis

SHORT_DRAIN = "--event-bus-drain-timeout-ms=100"


@contextmanager
def outage(bus: Path) -> Iterator[None]:
    """Make the directory of the bus unusable for a while."""
    away = bus.with_suffix(".away")
    if bus.exists():
        bus.rename(away)
    bus.write_text("in the way")
    try:
        yield
    finally:
        bus.unlink()
        if away.exists():
            away.rename(bus)


def minutes(machine: Machine, first: int, last: int) -> bytes:
    """Return a response that has everything which is published."""
    return machine.replay(
        **{"from": f"2024-03-01T00:{first:02d}", "to": f"2024-03-01T00:{last:02d}"},
        withDisconnectMessages=True,
    )


def wait_for_state(machine: Machine, state: str) -> None:
    wait_until(lambda: machine.bus().get("state") == state, f"the bus is {state}")


def wait_for_events(bus: Path, *bodies: bytes) -> None:
    lines = sum(body.count(b"\n") for body in bodies)
    wait_until(
        lambda: len({event.event_id for event in published(bus)}) >= lines, "all events are there"
    )


def waiting(work: Path) -> int:
    """Return how many events are left on disk."""
    logs = find_logs(work / "spool")
    return sum(waiting_events(log, reader) for log in logs for reader in log.owner.readers)


def test_buses_that_take_different_payloads_do_not_wait_for_each_other(
    cache: Path, tmp_path: Path, redis_server: Redis, redis_stream: str
) -> None:
    bus = tmp_path / "bus"
    flags = [
        "--files-include-payloads=trade",
        f"--redis-url={redis_server.address}",
        f"--redis-stream={redis_stream}",
        "--redis-include-payloads=liquidation",
        "--event-bus-durability=spool",
    ]
    with Machine(cache, tmp_path, f"--files-dir={bus}", *flags) as machine:
        body = minutes(machine, 0, 2)
        assert machine.stop() == 0
    assert len(published(bus)) == body.count(b'"type":"trade"') > 0
    assert waiting(tmp_path) == 0


def test_order_survives_outages_a_killed_publisher_and_a_stop(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    # What had no place in memory went to disk once, and was overtaken there.
    flags = [f"--files-dir={bus}", SHORT_DRAIN, "--event-bus-queue-max-messages=500"]
    with Machine(cache, tmp_path, *flags) as machine:
        with outage(bus):
            bodies = [minutes(machine, 0, 2)]
            machine.kill_publisher()
            bodies.append(minutes(machine, 2, 3))
            wait_for_state(machine, "degraded")
        wait_for_events(bus, *bodies)
        with outage(bus):
            bodies.append(minutes(machine, 3, 4))
            assert machine.stop() == 0
            assert waiting(tmp_path) == bodies[-1].count(b"\n")
        machine.start()
        machine.wait_until_healthy()
        bodies.append(minutes(machine, 4, 5))
        wait_for_events(bus, *bodies)
        assert machine.stop() == 0
    assert_equals_response(published(bus), b"".join(bodies))


def test_publisher_of_a_required_bus_that_dies_in_an_outage_comes_back(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    flags = ["--event-bus-startup=require", "--event-bus-startup-timeout-ms=60000"]
    with Machine(cache, tmp_path, f"--files-dir={bus}", *flags) as machine:
        with outage(bus):
            machine.kill_publisher()
            body = minutes(machine, 0, 1)
            wait_for_state(machine, "degraded")
        wait_for_events(bus, body)
        assert machine.stop() == 0
    assert_equals_response(published(bus), body)


def test_required_bus_is_unwell_while_its_publisher_dies_again_and_again(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    flags = [f"--files-dir={bus}", "--event-bus-startup=require"]
    with Machine(cache, tmp_path, *flags) as machine:
        assert machine.health_check()[0] == 200
        for _ in range(UNSTABLE_DEATHS):
            machine.kill_publisher()
        body = minutes(machine, 0, 1)
        wait_for_events(bus, body)
        wait_for_state(machine, "up")
        assert machine.health_check()[0] == 503
        assert machine.stop() == 0


def test_flipped_bit_costs_one_chunk_and_is_counted(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    with (
        Machine(cache, tmp_path, f"--files-dir={bus}", SHORT_DRAIN) as machine,
        outage(bus),
    ):
        body = minutes(machine, 0, 2)
        machine.kill()
    [log] = find_logs(tmp_path / "spool")
    chunks = [head for _, head in read_heads(log.path) if head.events]
    flip_a_bit(list_segments(log.path)[0].path, HEAD_BYTES + 100)
    with Machine(cache, tmp_path, f"--files-dir={bus}") as machine:
        wait_until(lambda: machine.bus().get("queued") == 0, "the rest is delivered")
        assert machine.stop() == 0
    events = published(bus)
    assert len(events) == body.count(b"\n") - chunks[0].events
    assert len(list_quarantine(tmp_path / "spool")) == 1


def flip_a_bit(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_publisher_that_dies_again_and_again_loses_nothing(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    bodies: list[bytes] = []
    is_over = threading.Event()
    # The server kept so much in memory until a publisher came back, and lost what came then.
    flags = ["--event-bus-queue-max-bytes=1MiB", "--event-bus-replay-max-block-ms=100"]
    with Machine(cache, tmp_path, f"--files-dir={bus}", *flags) as machine:

        def replay() -> None:
            while not is_over.is_set():
                bodies.append(minutes(machine, 0, 10))

        replaying = threading.Thread(target=replay)
        replaying.start()
        for _ in range(6):
            machine.kill_publisher()
        is_over.set()
        replaying.join()
        # Another code would say that events were lost.
        assert machine.stop() == 0
    accepted = sum(body.count(b"\n") for body in bodies)
    events = published(bus)
    assert len({event.headers["deliveryId"] for event in events}) == accepted
    assert_first_arrivals_rise(events)
    assert_equals_response(events, bodies[0])


def assert_first_arrivals_rise(events: Sequence[Published]) -> None:
    """Check that events of one log and key first arrived in the order of their writing."""
    seen: set[str] = set()
    latest: dict[tuple[str, str], str] = {}
    for event in events:
        delivery_id = event.headers["deliveryId"]
        if delivery_id in seen:
            continue
        seen.add(delivery_id)
        key = delivery_id.partition("-")[0], event.key
        assert delivery_id > latest.get(key, ""), f"{delivery_id} after {latest[key]}"
        latest[key] = delivery_id


def test_consumer_that_keeps_rising_delivery_ids_gets_every_event_once(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    with Machine(cache, tmp_path, f"--files-dir={bus}", "--workers=2") as machine:
        with ThreadPoolExecutor(4) as clients:
            bodies = clients.map(lambda _: minutes(machine, 0, 5), range(4))
            machine.kill_publisher()
        assert machine.stop() == 0
    accepted = sum(body.count(b"\n") for body in bodies)
    # The rule of docs/buses/kafka.md.
    kept = 0
    latest: dict[tuple[str, str], str] = {}
    for event in published(bus):
        delivery_id = event.headers["deliveryId"]
        key = delivery_id.partition("-")[0], event.key
        if delivery_id > latest.get(key, ""):
            latest[key] = delivery_id
            kept += 1
    assert kept == accepted


def test_stop_that_cannot_deliver_leaves_everything_on_disk(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    flags = [f"--files-dir={bus}", SHORT_DRAIN, "--event-bus-overflow=block"]
    with outage(bus), Machine(cache, tmp_path, *flags) as machine:
        body = minutes(machine, 0, 2)
        assert machine.stop() == 0
        assert waiting(tmp_path) == body.count(b"\n")


def test_server_that_restarts_at_once_after_a_kill_delivers_the_backlog(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    with Machine(cache, tmp_path, f"--files-dir={bus}") as machine:
        with outage(bus):
            body = minutes(machine, 0, 1)
            machine.kill()
            machine.start()
            machine.wait_until_healthy()
            wait_until(
                lambda: machine.bus().get("queued") == body.count(b"\n"), "health tells of it"
            )
        wait_for_events(bus, body)
        assert machine.stop() == 0
    assert_equals_response(published(bus), body)


def test_publisher_that_outlives_its_server_leaves_the_rest_to_the_next(
    cache: Path, tmp_path: Path
) -> None:
    bus = tmp_path / "bus"
    flags = [f"--files-dir={bus}", "--event-bus-drain-timeout-ms=1000"]
    with Machine(cache, tmp_path, *flags) as machine:
        with outage(bus):
            body = minutes(machine, 0, 1)
            orphan = machine.publisher
            assert orphan is not None
            machine.signal(signal.SIGKILL)
            machine.wait()
            machine.start()
            machine.wait_until_healthy()
            wait_until(lambda: not is_alive(orphan), "the old publisher has ended")
        wait_for_events(bus, body)
        assert machine.stop() == 0
    assert_equals_response(published(bus), body)


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_backlog_stays_with_its_endpoint_and_follows_its_settings(
    cache: Path, tmp_path: Path
) -> None:
    bus, other = tmp_path / "bus", tmp_path / "other"
    with (
        outage(bus),
        Machine(cache, tmp_path, f"--files-dir={bus}", SHORT_DRAIN) as machine,
    ):
        body = minutes(machine, 0, 1)
        assert machine.stop() == 0
    with Machine(cache, tmp_path, f"--files-dir={other}") as machine:
        wait_for_state(machine, "up")
        wait_until(lambda: "not configured any more" in machine.log(), "the backlog is named")
        assert machine.stop() == 0
    assert published(other) == []
    assert waiting(tmp_path) == body.count(b"\n")
    flags = [f"--files-dir={bus}", "--files-include-payloads=trade", "--files-stream=corrected"]
    with Machine(cache, tmp_path, *flags) as machine:
        wait_until(lambda: waiting(tmp_path) == 0, "the backlog is delivered")
        assert machine.stop() == 0
    assert not (bus / "bronze").exists()
    found = records_of(published(bus, "corrected"))
    assert len(found) == body.count(b'"type":"trade"') > 0


def test_backlog_of_another_producer_is_named_and_waits_for_it(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    flags = [f"--files-dir={bus}", SHORT_DRAIN]
    with outage(bus), Machine(cache, tmp_path, *flags, "--event-bus-producer-id=first") as machine:
        body = minutes(machine, 0, 1)
        assert machine.stop() == 0
    with Machine(cache, tmp_path, *flags, "--event-bus-producer-id=second") as machine:
        wait_for_state(machine, "up")
        wait_until(lambda: "events of another producer" in machine.log(), "the backlog is named")
        assert machine.stop() == 0
    assert waiting(tmp_path) == body.count(b"\n")
    with Machine(cache, tmp_path, *flags, "--event-bus-producer-id=first") as machine:
        wait_until(lambda: waiting(tmp_path) == 0, "the backlog is delivered")
        assert "events of another producer" not in machine.log()
        assert machine.stop() == 0
    assert_equals_response(published(bus), body)


def test_kill_during_the_drain_loses_nothing(cache: Path, tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    with Machine(cache, tmp_path, f"--files-dir={bus}") as machine:
        with outage(bus):
            body = minutes(machine, 0, 1)
            machine.signal()
            time.sleep(0.5)
            machine.kill()
        machine.start()
        machine.wait_until_healthy()
        wait_for_events(bus, body)
        assert machine.stop() == 0
    assert_equals_response(published(bus), body)
