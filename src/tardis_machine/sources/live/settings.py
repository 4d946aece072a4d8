"""Settings of live streams."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import option


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """How exchanges are streamed."""

    exchange_gateway: str | None = option(
        None,
        "Base URL to reach exchanges through: wss://HOST/PATH is requested as URL/HOST/PATH, REST "
        "calls too (default: connect directly).",
        metavar="url",
    )
    exchange_environment: Mapping[str, str] = field(
        default_factory=dict,
        repr=False,
        metadata={
            "help": "Credentials, addresses and limits of exchanges, by variable name such as "
            "OKX_API_KEY; commands also read them from the environment.",
            "secret": True,
        },
    )
    stream_queue_max_records: int = option(
        200_000,
        "Maximum records queued for one client of a live stream before it is disconnected.",
        minimum=1,
    )
    stream_queue_max_bytes: int = option(
        128 * 1024 * 1024,
        "Maximum memory of what is queued for all clients of live streams of a process, about; "
        "beyond it the client that holds most is disconnected.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        gateway = self.exchange_gateway
        if gateway is not None and not gateway.startswith(("http://", "https://")):
            raise SettingsError(
                f"exchange_gateway must start with http:// or https://, got {gateway!r}."
            )
