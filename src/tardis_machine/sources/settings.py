"""Settings of the archive: the data API, the cache, retries and timeouts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import computed_option, option
from tardis_machine.model.user_folders import cache_folder

Compression = Literal["zstd", "gzip"]


@dataclass(frozen=True, kw_only=True)
class ArchiveSettings:
    """Where recorded data comes from, with retries and timeouts."""

    usual: ClassVar[tuple[str, ...]] = ("api_key", "cache_dir", "offline", "endpoint", "http_proxy")

    endpoint: str = option("https://api.tardis.dev/v1", "Base URL of the data API.")
    api_key: str | None = field(
        default=None,
        repr=False,
        metadata={
            "help": "API key for the data API (default: none; only the first day of each month is "
            "available then).",
            "secret": True,
        },
    )
    cache_dir: Path = computed_option(
        cache_folder,
        "Root directory of the slice cache.",
        shown_default="~/.cache/tardis-machine",
    )
    offline: bool = option(default=False, help="Read from the cache only; never use the network.")
    trust_cache: bool = option(
        default=False,
        help="Also read the first and last minute of a range from the cache; by default they are "
        "requested from the data API, to check that the API key grants access.",
    )
    compression: Compression = option("zstd", "Compression requested from the data API.")
    http_proxy: str | None = field(
        default=None,
        # It may contain a password.
        repr=False,
        metadata={
            "help": "HTTP proxy for requests to the data API and to exchanges.",
            "metavar": "http://user:pass@host:port",
            "fallback_env": "HTTP_PROXY",
            "secret": True,
        },
    )
    max_concurrent_requests: int = option(
        60,
        "Maximum concurrent requests to the data API, over all replays of a process.",
        minimum=1,
    )
    max_slices_ahead: int = option(
        240,
        "Maximum slices of one replay to prefetch to disk.",
        minimum=1,
    )
    max_attempts: int = option(
        30, "Maximum attempts per slice before the request fails.", minimum=1
    )
    retry_budget_seconds: float = option(
        600, "Maximum time for all attempts of one slice before the request fails.", minimum=0
    )
    retry_delay_max_seconds: float = option(
        120,
        "Maximum retry delay before jitter and extra delays for 429 and 500; doubles per attempt, "
        "starting at 2.",
        minimum=0,
    )
    retry_after_max_seconds: float = option(
        300, "Maximum retry delay taken from a Retry-After header.", minimum=0
    )
    connect_timeout_seconds: float = option(30, "Connect timeout.", minimum=0)
    idle_timeout_seconds: float = option(135, "Read timeout: maximum time without data.", minimum=0)

    def __post_init__(self) -> None:
        problems = [text for is_wrong, text in self._checks() if is_wrong]
        if problems:
            raise SettingsError(*problems)

    def _checks(self) -> list[tuple[bool, str]]:
        return [
            (
                not self.endpoint.startswith(("http://", "https://")),
                f"endpoint must start with http:// or https://, got {self.endpoint!r}.",
            ),
            (
                self.compression not in ("zstd", "gzip"),
                f"compression must be zstd or gzip, got {self.compression!r}.",
            ),
            *(
                (getattr(self, name) < 1, f"{name} must be at least 1, got {getattr(self, name)}.")
                for name in ("max_concurrent_requests", "max_slices_ahead", "max_attempts")
            ),
        ]
