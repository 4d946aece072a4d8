"""What `/health-check` answers."""

import resource
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

_HOUR_US = 3_600_000_000
_KIB_PER_MB = 1024


class MemoryInfo(msgspec.Struct, frozen=True):
    """Memory of the process in mebibytes, under the names existing monitors read."""

    rss_mb: float = msgspec.field(name="rssMB")
    heap_total_mb: float = msgspec.field(name="heapTotalMB")
    heap_used_mb: float = msgspec.field(name="heapUsedMB")
    external_mb: float = msgspec.field(name="externalMB")


class BusHealth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How publishing to one bus is doing."""

    state: str
    queued: int
    parked: int
    last_ack_age_ms: int | None = None
    last_error: str | None = None


class StrandedBacklog(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Events that wait for an endpoint which is not configured any more."""

    bus: str
    endpoint: str
    events: int


class Health(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The whole answer, in the key order of the API."""

    status: str
    uptime_hours: float
    timestamp_ms: int
    memory_info: MemoryInfo
    event_bus: dict[str, BusHealth] | UnsetType = UNSET
    stranded: list[StrandedBacklog] | UnsetType = UNSET


def read_health(
    started_us: int,
    now_us: int,
    buses: dict[str, BusHealth] | UnsetType = UNSET,
    stranded: list[StrandedBacklog] | UnsetType = UNSET,
) -> Health:
    """Describe a healthy process that has run since `started_us`."""
    return Health(
        status="Healthy",
        uptime_hours=round((now_us - started_us) / _HOUR_US, 2),
        timestamp_ms=now_us // 1000,
        memory_info=read_memory(),
        event_bus=buses,
        stranded=stranded,
    )


def read_memory(status_file: Path = Path("/proc/self/status")) -> MemoryInfo:
    """Read the memory of this process; elsewhere than on Linux the peak stands for all."""
    try:
        sizes = _sizes_kib(status_file.read_text())
    except OSError:
        sizes = {"VmRSS": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    rss = sizes["VmRSS"]
    return MemoryInfo(
        _megabytes(rss),
        _megabytes(sizes.get("VmData", rss)),
        _megabytes(sizes.get("RssAnon", rss)),
        _megabytes(sizes.get("RssFile", 0) + sizes.get("RssShmem", 0)),
    )


def _sizes_kib(text: str) -> dict[str, int]:
    """Parse lines such as `VmRSS:   1234 kB`."""
    pairs = (line.split(":", 1) for line in text.splitlines() if line.endswith(" kB"))
    return {name: int(size.split()[0]) for name, size in pairs}


def _megabytes(kib: int) -> float:
    return round(kib / _KIB_PER_MB, 1)
