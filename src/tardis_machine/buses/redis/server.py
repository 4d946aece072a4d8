"""Properties of a Redis server and its streams."""

from dataclasses import dataclass

from redis.exceptions import ResponseError

from tardis_machine.buses.redis.client import Link
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

IDEMPOTENT_SINCE = (8, 6)
_IDEMPOTENT_SECONDS = 600
_IDEMPOTENT_IDS = 10_000


@dataclass(frozen=True)
class ServerFacts:
    """Properties that the sink needs before it sends."""

    version: tuple[int, ...] = ()
    is_valkey: bool = False
    is_cluster: bool = False
    max_bulk_bytes: int | None = None
    """Largest argument of a command."""

    @property
    def knows_idempotence(self) -> bool:
        """Say whether the server can drop repeated entries."""
        return not self.is_valkey and self.version[:2] >= IDEMPOTENT_SINCE


def read_facts(link: Link) -> ServerFacts:
    """Read the properties of a server; those it does not report stay unknown."""
    info = _info(link, "server")
    version = info.get("redis_version", "")
    return ServerFacts(
        version=tuple(int(part) for part in version.split(".") if part.isdigit()),
        is_valkey=info.get("server_name") == "valkey" or "valkey_version" in info,
        is_cluster=info.get("redis_mode") == "cluster",
        max_bulk_bytes=_max_bulk_bytes(link),
    )


def memory_share(link: Link) -> float:
    """Return which share of its memory limit a server uses; 0 without a limit."""
    info = _info(link, "memory")
    limit = int(info.get("maxmemory", 0))
    return int(info.get("used_memory", 0)) / limit if limit else 0.0


def newest_id(link: Link, stream: str) -> tuple[int, int]:
    """Return the newest entry id that a stream ever had."""
    try:
        answer = link.ask("XINFO", "STREAM", stream)
    except ResponseError as error:
        if "no such key" not in str(error):
            raise
        return 0, 0
    facts = dict(zip(answer[::2], answer[1::2], strict=False))
    milliseconds, _, sequence = facts[b"last-generated-id"].partition(b"-")
    return int(milliseconds), int(sequence)


def exists(link: Link, stream: str) -> bool:
    """Say whether a stream has been written to."""
    return bool(link.ask("EXISTS", stream))


def widen_idempotence(link: Link, stream: str) -> None:
    """Let a new stream remember enough ids; its defaults are 100 ids and 100 seconds."""
    try:
        link.ask(
            "XCFGSET",
            stream,
            "IDMP-DURATION",
            _IDEMPOTENT_SECONDS,
            "IDMP-MAXSIZE",
            _IDEMPOTENT_IDS,
        )
    except ResponseError as error:
        log.warning(
            "deduplication window of the stream could not be configured",
            stream=stream,
            error=str(error),
        )


def warn_of_readers(link: Link, stream: str) -> None:
    """Warn when trimming may remove entries that consumer groups have not read."""
    try:
        groups = link.ask("XINFO", "GROUPS", stream)
    except ResponseError:
        return
    if groups:
        log.warning(
            "stream has consumer groups; trimming may remove unread entries",
            stream=stream,
            groups=len(groups),
        )


def _info(link: Link, section: str) -> dict[str, str]:
    try:
        text = link.ask("INFO", section).decode("utf-8", "replace")
    except ResponseError as error:
        log.info("INFO denied; server properties unknown", section=section, error=str(error))
        return {}
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name: value.strip() for name, _, value in pairs}


def _max_bulk_bytes(link: Link) -> int | None:
    try:
        answer = link.ask("CONFIG", "GET", "proto-max-bulk-len")
    except ResponseError:
        # Managed servers often forbid CONFIG; their default is far above our limit.
        return None
    return int(answer[1]) if answer else None
