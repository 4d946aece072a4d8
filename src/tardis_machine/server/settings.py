"""Settings of the server."""

import math
from dataclasses import dataclass

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
    max_head_bytes: int = option(
        1_048_576, "Maximum size of a request line or header field.", minimum=8192
    )
    max_body_bytes: int = option(16 * 1_048_576, "Maximum size of a request body.", minimum=1024)
