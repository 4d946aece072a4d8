"""Settings of publishing to NATS."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from tardis_machine.bronze.keys import SUBJECT, compile_template
from tardis_machine.buses.destinations import Destinations
from tardis_machine.buses.nats.subjects import is_literal, is_pattern, pattern_of, widest
from tardis_machine.buses.settings import (
    MIB,
    DeliveryOverrides,
    EventBusSettings,
    HeaderBusSettings,
)
from tardis_machine.buses.tls import file_problems
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import Secret, group, option

SCHEMES = ("nats", "tls", "ws", "wss")

_ANY = re.compile(r".*", re.DOTALL)
_STREAM = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,255}")


@dataclass(frozen=True, kw_only=True)
class NatsSettings(HeaderBusSettings):
    """Publish to NATS JetStream."""

    bus: ClassVar[str] = "nats"
    title: ClassVar[str] = "NATS"
    extra: ClassVar[str | None] = "nats"
    client: ClassVar[str | None] = "nats"
    anchors: ClassVar[tuple[str, ...]] = ("servers",)
    reserved_headers: ClassVar[tuple[str, ...]] = ("Nats-*",)
    usual: ClassVar[tuple[str, ...]] = (
        "servers",
        "subject",
        "user",
        "password",
        "token",
        "creds",
        "tls_ca",
        "stream",
        "create_stream",
    )

    servers: tuple[str, ...] = option(
        (), "Server URLs. Setting them enables NATS.", metavar="nats://host:port,…"
    )
    subject: str | None = option(
        None, "Subject of payload cases that subject-routing does not list."
    )
    subject_routing: Mapping[str, str] | None = option(
        None, "Subject per payload case.", metavar="payloadCase:subject"
    )
    subject_template: str | None = option(
        None, "Subject template, such as bronze.{{exchange}}.{{payloadCase}}.{{symbol}}."
    )
    user: str | None = option(None, "Username.")
    password: Secret | None = option(None, "Password.", aliases=("pass",))
    token: Secret | None = option(None, "Authentication token.")
    creds: Path | None = option(None, "Credentials file (.creds: JWT and NKey seed).")
    nkey_seed: Path | None = option(None, "File with the NKey seed.")
    tls_ca: Path | None = option(
        None, "CA certificates to trust, PEM file (default: those of the system)."
    )
    tls_cert: Path | None = option(None, "Client certificate, PEM file.")
    tls_key: Path | None = option(None, "Private key of the client certificate, PEM file.")
    tls_hostname: str | None = option(
        None, "Host name to verify in the certificates of the servers."
    )
    tls_first: bool = option(
        default=False, help="TLS handshake before the INFO message of the server."
    )
    name: str = option("tardis-machine", "Connection name shown by the servers.")
    mode: Literal["jetstream", "core"] = option(
        "jetstream",
        "jetstream: with acknowledgements, at least once; core: without acknowledgements, at most "
        "once.",
    )
    stream: str | None = option(
        None, "Expected stream (Nats-Expected-Stream): others must not store the events."
    )
    create_stream: bool = option(
        default=False, help="Create the stream if it is missing; an existing one is not changed."
    )
    stream_subjects: tuple[str, ...] = option(
        (), "Subjects of a created stream (default: all that events are published to)."
    )
    stream_storage: Literal["file", "memory"] = option("file", "Storage type of a created stream.")
    stream_replicas: int = option(1, "Replicas of a created stream.", minimum=1, maximum=5)
    stream_max_bytes: int = option(0, "Maximum bytes of a created stream; 0: no limit.", minimum=0)
    stream_max_age_ms: int = option(
        0, "Maximum age of messages in a created stream; 0: no limit.", minimum=0
    )
    stream_discard: Literal["old", "new"] = option(
        "old",
        "Discard policy of a created stream at its limits: delete old messages or reject new ones.",
    )
    stream_duplicate_window_ms: int = option(
        120_000, "Deduplication window of a created stream.", minimum=100
    )
    domain: str | None = option(None, "JetStream domain.")
    api_prefix: str | None = option(None, "Subject prefix of the JetStream API.")
    max_pending: int = option(
        1024,
        "Maximum unacknowledged events.",
        minimum=1,
        maximum=65_536,
        aliases=("max_in_flight",),
    )
    ack_timeout_ms: int = option(
        5000,
        "Timeout without any acknowledgement.",
        minimum=1,
        aliases=("request_timeout_ms",),
    )
    connect_timeout_ms: int = option(5000, "Connect timeout.", minimum=1)
    strict_order: bool = option(
        default=False,
        help="Reject an event whose predecessor is missing in the stream "
        "(Nats-Expected-Last-Msg-Id); requires a single publisher.",
    )
    max_batch_size: int = option(256, "Maximum events per write.", minimum=1)
    max_batch_bytes: int = option(
        MIB, "Maximum bytes sent before acknowledgements are awaited.", minimum=1
    )
    max_batch_delay_ms: int = option(5, "Maximum time to wait for a batch to fill.", minimum=0)
    max_record_bytes: int | None = option(
        None,
        "Maximum size of an event, headers included (default: max_payload of the server).",
        minimum=1,
    )
    delivery: DeliveryOverrides = group(DeliveryOverrides, "nats")

    @property
    def endpoint(self) -> str:
        """Return the servers, without logins."""
        return ",".join(sorted(server.rpartition("@")[2] for server in self.servers))

    @property
    def destinations(self) -> Destinations:
        """Return what names the subjects."""
        return Destinations(
            bus=self.bus,
            noun="subject",
            base=self.subject,
            routing=self.subject_routing,
            template=self.subject_template,
            pattern=_ANY,
            name_rule=SUBJECT,
        )

    @property
    def wanted_subjects(self) -> tuple[str, ...]:
        """Return the subjects of a stream that stores every event."""
        if self.stream_subjects:
            return self.stream_subjects
        base = (self.subject_template or self.subject or "",)
        texts = (*base, *(self.subject_routing or {}).values())
        return widest(pattern_of(text) for text in texts)

    def resolve(self, shared: EventBusSettings) -> EventBusSettings:
        """Return how events are delivered to NATS."""
        resolved = super().resolve(shared)
        if self.strict_order and resolved.message_id == "off":
            raise SettingsError(
                "nats-strict-order requires message ids: nats-message-id must not be off."
            )
        return resolved

    def problems(self) -> Iterable[str]:
        """Yield what is wrong, option by option."""
        yield from self._server_problems()
        yield from self._subject_problems()
        yield from self._login_problems()
        yield from self._tls_problems()
        yield from self._stream_problems()
        yield from self._own_header_problems()

    def _server_problems(self) -> Iterable[str]:
        for server in self.servers:
            scheme, _, _ = server.partition("://")
            if "@" in server:
                # Not shown, because it contains a secret.
                yield "nats-servers must not contain credentials: use nats-user and nats-pass."
            elif scheme not in SCHEMES or not _has_host(server):
                yield f'nats-servers: "{server}" is not a nats://, tls://, ws:// or wss:// URL.'
        if len({server.startswith("ws") for server in self.servers}) > 1:
            yield "nats-servers must be all WebSocket URLs or none."

    def _subject_problems(self) -> Iterable[str]:
        if self.is_on and self.subject is None and self.subject_template is None:
            yield "nats-subject is required when nats-servers is set."
        faults = list(self.destinations.problems())
        yield from faults
        if not faults:
            yield from (
                f"{option} must be a literal subject (no *, >, spaces or empty tokens)."
                for option, name in self._names()
                if not is_literal(name)
            )

    def _names(self) -> Iterable[tuple[str, str]]:
        if self.subject is not None:
            yield "nats-subject", self.subject
        if self.subject_template is not None:
            yield "nats-subject-template", _filled(self.subject_template)
        for text in (self.subject_routing or {}).values():
            yield "nats-subject-routing", _filled(text)

    def _login_problems(self) -> Iterable[str]:
        if (self.user is None) != (self.password is None):
            yield "nats-user and nats-pass must be given together."
        methods = {
            "nats-user": self.user,
            "nats-token": self.token,
            "nats-creds": self.creds,
            "nats-nkey-seed": self.nkey_seed,
        }
        given = [name for name, value in methods.items() if value is not None]
        if len(given) > 1:
            yield f"Only one authentication method may be given, not {' and '.join(given)}."
        yield from file_problems({"nats-creds": self.creds, "nats-nkey-seed": self.nkey_seed})

    def _tls_problems(self) -> Iterable[str]:
        files = {"ca": self.tls_ca, "cert": self.tls_cert, "key": self.tls_key}
        yield from file_problems({f"nats-tls-{name}": path for name, path in files.items()})
        if self.tls_key is not None and self.tls_cert is None:
            yield "nats-tls-key requires nats-tls-cert."

    def _stream_problems(self) -> Iterable[str]:
        if self.stream is not None and not _STREAM.fullmatch(self.stream):
            yield "nats-stream must be a name without spaces, dots, slashes, * or >."
        if self.stream is None:
            for name in ("create_stream", "strict_order"):
                if getattr(self, name):
                    yield f"nats-{name.replace('_', '-')} requires nats-stream."
        for subject in self.stream_subjects:
            if not is_pattern(subject):
                yield f'nats-stream-subjects: "{subject}" is not a subject.'
        if self.domain is not None and self.api_prefix is not None:
            yield "Give nats-domain or nats-api-prefix, not both."
        if self.mode == "core" and (self.stream or self.strict_order):
            yield "nats-mode=core has no streams: remove nats-stream and nats-strict-order."

    def _own_header_problems(self) -> Iterable[str]:
        for name, value in self.static_headers.items():
            if ":" in name or not (value.isascii() and value.isprintable()):
                yield f'nats-static-headers: "{name}" has ":" or a value beyond printable ASCII.'
        prefix = self.meta_headers_prefix or ""
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]*", prefix):
            yield "nats-meta-headers-prefix must consist of letters, digits, - and _."
        if prefix.lower().startswith("nats-"):
            yield "nats-meta-headers-prefix must not begin with Nats-."


def _filled(text: str) -> str:
    return compile_template(text, "", SUBJECT).filled("x")


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
