"""What the server can be told."""

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
    """Where the server listens and how it shares the machine."""

    host: str = option("127.0.0.1", "Address to bind; 0.0.0.0 opens the server to the network.")
    port: int = option(
        8000,
        "HTTP port; WebSocket is the next one.",
        minimum=1,
        maximum=MAX_HTTP_PORT,
        parse=parse_port,
        override_env="PORT",
    )
    workers: int = option(1, "Processes behind the ports; 0 means one per CPU.", minimum=0)
    cluster_mode: bool = option(
        False, "Same as --workers 0: one process per CPU.", only_true_is_on=True
    )
    token: Secret | None = option(
        None, "Ask clients for this text, as `Authorization: Bearer` or `?token=`."
    )
    subscribe_seconds: float = option(
        2.0, "How long /ws-replay collects subscriptions before it starts.", minimum=0
    )
    heartbeat_seconds: float = option(
        30.0, "How often a WebSocket client is checked for signs of life.", minimum=0.1
    )
    slow_client_seconds: float = option(
        900.0, "How long a client may accept nothing before it is dropped.", minimum=1
    )
    max_head_bytes: int = option(1_048_576, "Longest request line and header.", minimum=8192)
    max_body_bytes: int = option(16 * 1_048_576, "Largest POST body.", minimum=1024)
