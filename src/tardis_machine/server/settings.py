"""Settings of the server."""

import math
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tardis_machine.buses.tls import file_problems, pair_problems
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.numbers import number_text, to_number
from tardis_machine.model.settings import Secret, option

MAX_HTTP_PORT = 65_534


def parse_port(text: str) -> int:
    """Read the HTTP port as existing set-ups write it; the text after the colon is its number."""
    number = to_number(text)
    if math.isfinite(number) and number == int(number) and 1 <= number <= MAX_HTTP_PORT:
        return int(number)
    shown = number_text(number) if math.isfinite(number) else _NOT_FINITE[str(number)]
    raise ValueError(
        f"Invalid HTTP port: {shown}. It must be an integer from 1 to {MAX_HTTP_PORT}, "
        "because the WebSocket port is the next one."
    )


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Listening address, processes and limits of the server."""

    usual: ClassVar[tuple[str, ...]] = ("host", "port", "workers", "cluster_mode", "token")

    host: str = option("127.0.0.1", "Address to bind; 0.0.0.0 listens on all interfaces.")
    port: int = option(
        8000,
        "HTTP port; the WebSocket port is this one + 1.",
        minimum=1,
        maximum=MAX_HTTP_PORT,
        parse=parse_port,
        override_env="PORT",
    )
    workers: int = option(1, "Worker processes; 0: one per CPU.", minimum=0)
    cluster_mode: bool = option(
        False, "One worker process per CPU; same as --workers 0.", only_true_is_on=True
    )
    token: Secret | None = option(
        None,
        "Token that clients must send, as `Authorization: Bearer` or `?token=` (default: no "
        "authentication).",
    )
    allowed_origins: tuple[str, ...] = option(
        (),
        "Web pages whose scripts may use the server, such as https://example.org; * for all "
        "(default: those of this machine).",
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "Host names by which clients may call the server (default: those of this machine on a "
        "loopback address, otherwise any).",
    )
    tls_cert: Path | None = option(
        None, "Certificate chain (PEM); both ports speak TLS (default: plain text)."
    )
    tls_key: Path | None = option(None, "Private key of the certificate (PEM).")
    subscribe_seconds: float = option(
        2.0, "Time /ws-replay waits for subscriptions before the replay starts.", minimum=0
    )
    heartbeat_seconds: float = option(
        30.0,
        "Interval of WebSocket pings; a client without any traffic in between is disconnected.",
        minimum=0.1,
    )
    slow_client_seconds: float = option(
        900.0,
        "Maximum time a client may read nothing before it is disconnected.",
        minimum=1,
    )
    request_timeout_seconds: float = option(
        30.0,
        "Maximum time from a connection to its first request, for the body of a request, and for "
        "the first byte to a client that has closed its side.",
        minimum=0.1,
    )
    max_streams: int = option(
        1024,
        "Maximum streams a process serves at once; each entry of a request is one, and so are "
        "each 100 symbols and each 64 KiB of it if that is more. Further requests get 503.",
        minimum=1,
    )
    max_head_bytes: int = option(
        1_048_576, "Maximum size of a request line, with the options in it.", minimum=8192
    )
    max_body_bytes: int = option(
        1_048_576, "Maximum size of a request body, after decompression.", minimum=1024
    )
    max_request_entries: int = option(1000, "Maximum entries of one normalized request.", minimum=1)
    max_request_data_types: int = option(
        100, "Maximum data types of one entry of a request.", minimum=1
    )
    max_request_symbols: int = option(
        10_000, "Maximum symbols of one request, over all its entries or filters.", minimum=1
    )
    max_request_levels: int = option(
        20_000,
        "Maximum depth of the book snapshots of one request, added up over all its data types.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        problems = [
            *pair_problems("tls", self.tls_cert, self.tls_key),
            *file_problems({"tls-cert": self.tls_cert, "tls-key": self.tls_key}),
        ]
        if problems:
            raise SettingsError(*problems)

    def tls_context(self) -> ssl.SSLContext | None:
        """Return what both ports encrypt with, None for plain text."""
        if self.tls_cert is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.tls_cert, self.tls_key)
        except (ssl.SSLError, OSError) as error:
            raise SettingsError(
                f"tls-cert {self.tls_cert} and tls-key {self.tls_key} cannot be used: {error}."
            ) from error
        return context
