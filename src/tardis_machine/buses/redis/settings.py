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
_HOST = re.compile(r"[^\s/@]+")
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
    usual: ClassVar[tuple[str, ...]] = (
        "url",
        "host",
        "port",
        "username",
        "password",
        "tls",
        "stream",
        "max_length",
    )

    url: Secret | None = option(
        None,
        "Server as redis://, rediss:// or unix:// URL, with or without password. This, host or "
        "sentinel-hosts enables Redis.",
    )
    host: str | None = option(None, "Host of the server.")
    port: int = option(6379, "Port of the server.", minimum=1, maximum=65_535)
    db: int = option(0, "Database number.", minimum=0)
    username: str | None = option(None, "Username (ACL).")
    password: Secret | None = option(None, "Password.")
    tls: bool = option(default=False, help="Use TLS.")
    tls_ca: Path | None = option(
        None, "CA certificates to trust, PEM file (default: those of the system)."
    )
    tls_cert: Path | None = option(None, "Client certificate, PEM file.")
    tls_key: Path | None = option(None, "Private key of the client certificate, PEM file.")
    tls_verify: bool = option(default=True, help="Verify the certificate of the server.")
    cluster: Switch = option("auto", "Whether the server is a Redis Cluster; auto: ask the server.")
    sentinel_hosts: tuple[str, ...] = option(
        (), "Sentinels to find the master with.", metavar="host:port,…"
    )
    sentinel_master: str | None = option(None, "Name of the master that the sentinels monitor.")
    sentinel_password: Secret | None = option(None, "Password of the sentinels.")
    stream: str | None = option(None, "Stream of payload cases that stream-routing does not list.")
    stream_routing: Mapping[str, str] | None = option(
        None, "Stream per payload case.", metavar="payloadCase:stream"
    )
    key_template: str | None = option(
        None,
        "Stream key template, such as {{{symbol}}}:trades.",
        aliases=("stream_template",),
    )
    max_length: int = option(
        0, "Trim streams to this number of entries (MAXLEN); 0: no trimming.", minimum=0
    )
    max_age_ms: int = option(0, "Trim entries older than this (MINID); 0: no trimming.", minimum=0)
    trim_exact: bool = option(default=False, help="Trim exactly (=) instead of by whole nodes (~).")
    data_field: str = option("data", "Field with the envelope.", pattern=".+")
    transaction: bool = option(
        default=True, help="Add the events of a batch to a stream in one transaction (MULTI/EXEC)."
    )
    wait_replicas: int = option(
        0, "Replicas that must acknowledge a batch (WAIT); 0: none.", minimum=0
    )
    wait_timeout_ms: int = option(1000, "Timeout of the acknowledgement by replicas.", minimum=1)
    idempotent: Switch = option(
        "auto", "Deduplication by the server; auto: if supported (Redis 8.6)."
    )
    entry_id: Literal["auto", "monotonic"] = option(
        "auto",
        "Entry ids: auto (by the server), monotonic (by this producer, which must be the only "
        "writer of the stream).",
    )
    memory_high_water: float = option(
        0.0,
        "Stop sending while the server uses more than this fraction of maxmemory; 0: off.",
        minimum=0,
        maximum=1,
    )
    max_batch_size: int = option(500, "Maximum events per batch.", minimum=1)
    max_batch_bytes: int = option(MIB, "Maximum bytes per batch.", minimum=1)
    max_batch_delay_ms: int = option(10, "Maximum time to wait for a batch to fill.", minimum=0)
    max_in_flight: int = option(
        2, "Maximum batches in flight, for different streams.", minimum=1, maximum=64
    )
    max_record_bytes: int = option(
        16 * MIB, "Maximum size of an envelope.", minimum=1, maximum=512 * MIB
    )
    request_timeout_ms: int = option(5000, "Timeout of sending a batch.", minimum=1)
    connect_timeout_ms: int = option(5000, "Connect timeout.", minimum=1)
    delivery: DeliveryOverrides = group(DeliveryOverrides, "redis")

    @property
    def sentinel_addresses(self) -> list[tuple[str, int]]:
        """Return host and port of every sentinel."""
        return [address for text in self.sentinel_hosts if (address := _address(text))]

    @property
    def endpoint(self) -> str:
        """Return the server and its database, without logins."""
        if self.sentinel_hosts:
            return f"{','.join(sorted(self.sentinel_hosts))}/{self.sentinel_master}/{self.db}"
        if self.url is None:
            return f"{(self.host or '').rpartition('@')[2]}:{self.port}/{self.db}"
        parts = urlsplit(self.url.reveal())
        place = f"{parts.hostname}:{parts.port or self.port}" if parts.hostname else ""
        return f"{place}{parts.path}?{parts.query}" if parts.query else f"{place}{parts.path}"

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
            yield "redis-sentinel-hosts must not be combined with redis-url or redis-host."
        if bool(self.sentinel_hosts) != bool(self.sentinel_master):
            yield "redis-sentinel-hosts and redis-sentinel-master must be given together."
        if self.host and not _HOST.fullmatch(self.host):
            # Not shown, because it may contain a secret.
            yield "redis-host must be a host name or an IP address: use redis-url for a URL."
        for text in self.sentinel_hosts:
            if "@" in text:
                yield (
                    "redis-sentinel-hosts must not contain credentials: use "
                    "redis-sentinel-password."
                )
            elif _address(text) is None:
                yield f'redis-sentinel-hosts: "{text}" must be host:port.'
        if self.cluster == "on" and self.db:
            yield "redis-db must be 0 with redis-cluster=on."

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
            yield "redis-idempotent=on requires redis-entry-id=auto."
        if self.wait_replicas and self.wait_timeout_ms >= self.request_timeout_ms:
            yield "redis-wait-timeout-ms must be below redis-request-timeout-ms."


def _url_problems(url: str) -> Iterable[str]:
    """Say what is wrong with a URL, without showing it."""
    try:
        parts = urlsplit(url)
        has_port_without_host = parts.port is not None and not parts.hostname
    except ValueError:
        yield "redis-url must be a URL with host and port."
        return
    if parts.scheme not in _SCHEMES:
        yield "redis-url must start with redis://, rediss:// or unix://."
    elif has_port_without_host:
        yield "redis-url must be a URL with host and port."
    elif unknown := parse_qs(parts.query).keys() - {"db"}:
        yield f"redis-url: {', '.join(sorted(unknown))} not allowed in the URL; only db is."


def _address(text: str) -> tuple[str, int] | None:
    found = _ADDRESS.fullmatch(text.strip())
    return (found["host"].strip("[]"), int(found["port"])) if found else None
