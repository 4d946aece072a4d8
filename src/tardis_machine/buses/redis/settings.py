"""Settings of publishing to Redis Streams."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

from tardis_machine.bronze.keys import VERBATIM
from tardis_machine.buses.destinations import Destinations
from tardis_machine.buses.settings import MIB, DeliveryOverrides, HeaderBusSettings
from tardis_machine.buses.tls import file_problems, pair_problems
from tardis_machine.model.settings import Secret, group, option

Switch: TypeAlias = Literal["auto", "on", "off"]

_STREAM = re.compile(r".+", re.DOTALL)
_SCHEMES = ("redis", "rediss", "unix")
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, kw_only=True)
class RedisSettings(HeaderBusSettings):
    """Publish to Redis Streams."""

    bus: ClassVar[str] = "redis"
    title: ClassVar[str] = "Redis"
    extra: ClassVar[str | None] = "redis"
    client: ClassVar[str | None] = "redis"
    anchors: ClassVar[tuple[str, ...]] = ("url", "host", "sentinel_hosts")
    reserved_headers: ClassVar[tuple[str, ...]] = ("data", "key")

    url: Secret | None = option(
        None, "Server as redis://, rediss:// or unix:// URL; it may hold the password."
    )
    host: str | None = option(None, "Server; neither this nor a URL: Redis is off.")
    port: int = option(6379, "Port of the server.", minimum=1, maximum=65_535)
    db: int = option(0, "Number of the database.", minimum=0)
    username: str | None = option(None, "User to log in as.")
    password: Secret | None = option(None, "Password to log in with.")
    tls: bool = option(default=False, help="Encrypt the connections.")
    tls_ca: Path | None = option(None, "Certificate authorities to trust (PEM).")
    tls_cert: Path | None = option(None, "Client certificate (PEM).")
    tls_key: Path | None = option(None, "Key of the client certificate (PEM).")
    tls_verify: bool = option(default=True, help="Check the server's certificate.")
    cluster: Switch = option("auto", "Whether the server is a cluster; auto: ask it.")
    sentinel_hosts: tuple[str, ...] = option(
        (), "Sentinels that know the master.", metavar="host:port,…"
    )
    sentinel_master: str | None = option(None, "Name of the master the sentinels watch.")
    sentinel_password: Secret | None = option(None, "Password of the sentinels.")
    stream: str | None = option(None, "Stream of payload cases without a route of their own.")
    stream_routing: Mapping[str, str] | None = option(
        None, "Streams of single payload cases.", metavar="payloadCase:stream"
    )
    key_template: str | None = option(
        None,
        "Stream by series, such as {{{symbol}}}:trades.",
        aliases=("stream_template",),
    )
    max_length: int = option(0, "Entries kept per stream; 0: all.", minimum=0)
    max_age_ms: int = option(0, "Age of entries kept; 0: any.", minimum=0)
    trim_exact: bool = option(default=False, help="Trim to the entry instead of to whole nodes.")
    data_field: str = option("data", "Field that carries the envelope.", pattern=".+")
    transaction: bool = option(
        default=True, help="Add a batch to a stream as a whole or not at all."
    )
    wait_replicas: int = option(0, "Replicas that must have a batch; 0: none.", minimum=0)
    wait_timeout_ms: int = option(1000, "How long replicas may take.", minimum=1)
    idempotent: Switch = option(
        "auto", "Let the server drop repeated entries; auto: where it can (Redis 8.6)."
    )
    entry_id: Literal["auto", "monotonic"] = option(
        "auto", "Who makes entry ids: the server, or this producer as the only writer."
    )
    memory_high_water: float = option(
        0.0, "Share of the server's maxmemory above which to pause; 0: off.", minimum=0, maximum=1
    )
    max_batch_size: int = option(500, "Events per batch.", minimum=1)
    max_batch_bytes: int = option(MIB, "Bytes per batch.", minimum=1)
    max_batch_delay_ms: int = option(10, "How long a batch waits for more events.", minimum=0)
    max_in_flight: int = option(
        2, "Batches under way at once, of different streams.", minimum=1, maximum=64
    )
    max_record_bytes: int = option(16 * MIB, "Largest envelope.", minimum=1, maximum=512 * MIB)
    request_timeout_ms: int = option(5000, "How long a batch may take.", minimum=1)
    connect_timeout_ms: int = option(5000, "How long connecting may take.", minimum=1)
    delivery: DeliveryOverrides = group(DeliveryOverrides, "redis")

    @property
    def sentinel_addresses(self) -> list[tuple[str, int]]:
        """Return host and port of every sentinel."""
        return [address for text in self.sentinel_hosts if (address := _address(text))]

    @property
    def destinations(self) -> Destinations:
        """Return what names the streams."""
        return Destinations(
            bus=self.bus,
            noun="stream",
            base=self.stream,
            routing=self.stream_routing,
            template=self.key_template,
            pattern=_STREAM,
            name_rule=VERBATIM,
            template_option="key-template",
        )

    def problems(self) -> Iterable[str]:
        """Yield what is wrong, option by option."""
        yield from self._server_problems()
        yield from self._tls_problems()
        yield from self._destination_problems()
        yield from self._entry_problems()

    def _server_problems(self) -> Iterable[str]:
        if self.url and self.host:
            yield "Use redis-url or redis-host, not both."
        if self.url:
            yield from _url_problems(self.url.reveal())
        if self.sentinel_hosts and (self.url or self.host):
            yield "redis-sentinel-hosts finds the server: give neither redis-url nor redis-host."
        if bool(self.sentinel_hosts) != bool(self.sentinel_master):
            yield "redis-sentinel-hosts and redis-sentinel-master must be given together."
        for text in self.sentinel_hosts:
            if _address(text) is None:
                yield f'redis-sentinel-hosts: "{text}" is not host:port.'
        if self.cluster == "on" and self.db:
            yield "redis-db must be 0 in a cluster."

    def _tls_problems(self) -> Iterable[str]:
        files = {"ca": self.tls_ca, "cert": self.tls_cert, "key": self.tls_key}
        yield from file_problems({f"redis-tls-{name}": path for name, path in files.items()})
        yield from pair_problems("redis-tls", self.tls_cert, self.tls_key)

    def _destination_problems(self) -> Iterable[str]:
        if self.is_on and self.stream is None and self.key_template is None:
            yield "redis-stream is required when redis-url or redis-host is set."
        yield from self.destinations.problems()

    def _entry_problems(self) -> Iterable[str]:
        if self.max_length and self.max_age_ms:
            yield "Use redis-max-length or redis-max-age-ms, not both."
        if self.data_field in self.static_headers:
            yield f'redis-static-headers cannot override redis-data-field "{self.data_field}".'
        if self.idempotent == "on" and self.entry_id == "monotonic":
            yield "redis-idempotent needs redis-entry-id=auto."
        if self.wait_replicas and self.wait_timeout_ms >= self.request_timeout_ms:
            yield "redis-wait-timeout-ms must be below redis-request-timeout-ms."


def _url_problems(url: str) -> Iterable[str]:
    """Say what is wrong with a URL, without showing it."""
    try:
        parts = urlsplit(url)
        has_port_without_host = parts.port is not None and not parts.hostname
    except ValueError:
        yield "redis-url is not a URL with host and port."
        return
    if parts.scheme not in _SCHEMES:
        yield "redis-url must start with redis://, rediss:// or unix://."
    elif has_port_without_host:
        yield "redis-url is not a URL with host and port."
    elif unknown := parse_qs(parts.query).keys() - {"db"}:
        yield f"redis-url: {', '.join(sorted(unknown))} cannot be given in the URL, only db."


def _address(text: str) -> tuple[str, int] | None:
    found = _ADDRESS.fullmatch(text.strip())
    return (found["host"].strip("[]"), int(found["port"])) if found else None
