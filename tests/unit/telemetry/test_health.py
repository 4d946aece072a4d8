from pathlib import Path

import msgspec

from tardis_machine.telemetry.health import BusHealth, read_health, read_memory

HOUR_US = 3_600_000_000


def test_answer_has_the_keys_of_the_api_in_order() -> None:
    answer = msgspec.json.decode(msgspec.json.encode(read_health(0, HOUR_US * 3 // 2)))
    assert list(answer) == ["status", "uptimeHours", "timestampMs", "memoryInfo"]
    assert list(answer["memoryInfo"]) == ["rssMB", "heapTotalMB", "heapUsedMB", "externalMB"]
    assert (answer["status"], answer["uptimeHours"], answer["timestampMs"]) == (
        "Healthy",
        1.5,
        5_400_000,
    )


def test_uptime_is_rounded_to_two_decimals() -> None:
    assert read_health(0, HOUR_US // 3).uptime_hours == 0.33


def test_memory_is_read_from_the_process() -> None:
    memory = read_memory()
    assert 5 < memory.rss_mb < 10_000
    assert memory.heap_used_mb > 0


def test_memory_is_numeric_without_the_status_file(tmp_path: Path) -> None:
    memory = read_memory(tmp_path / "absent")
    assert memory.rss_mb > 5
    assert memory.external_mb == 0


def test_memory_lines_are_read_by_name(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(
        "Name:\tpython\nVmRSS:\t 2048 kB\nVmData:\t 4096 kB\nRssAnon:\t1024 kB\n"
        "RssFile:\t 512 kB\nRssShmem:\t 512 kB\nThreads:\t1\n"
    )
    memory = read_memory(status)
    assert (memory.rss_mb, memory.heap_total_mb) == (2.0, 4.0)
    assert (memory.heap_used_mb, memory.external_mb) == (1.0, 1.0)


def test_buses_are_added_when_there_are_any() -> None:
    bus = BusHealth(state="up", queued=3, parked=0, last_ack_age_ms=12)
    answer = msgspec.json.decode(msgspec.json.encode(read_health(0, 0, {"kafka": bus})))
    assert answer["eventBus"]["kafka"] == {
        "state": "up",
        "queued": 3,
        "parked": 0,
        "lastAckAgeMs": 12,
        "lastError": None,
    }
