"""Settings of the archive: the data API, the cache and the patience with both."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import computed_option, option

Compression = Literal["zstd", "gzip"]


def _default_cache_dir() -> Path:
    return Path(tempfile.gettempdir()) / ".tardis-cache"


@dataclass(frozen=True, kw_only=True)
class ArchiveSettings:
    """Where recorded data comes from, and how hard to try."""

    endpoint: str = option("https://api.tardis.dev/v1", "Base URL of the data API.")
    api_key: str | None = field(
        default=None,
        repr=False,
        metadata={
            "help": "Key for the data API. Without one, only the first day of each month is "
            "readable.",
            "secret": True,
        },
    )
    cache_dir: Path = computed_option(
        _default_cache_dir,
        "Root folder of cached slices.",
        shown_default="<system temp dir>/.tardis-cache",
    )
    offline: bool = option(default=False, help="Read the cache only and never use the network.")
    trust_cache: bool = option(
        default=False,
        help="Also take the first and last minute of a range from the cache, without asking the "
        "data API whether the key grants access to the range.",
    )
    compression: Compression = option("zstd", "Compression asked of the data API: zstd or gzip.")
    http_proxy: str | None = option(
        None, "Proxy for all requests to the data API.", fallback_env="HTTP_PROXY"
    )
    max_concurrent_requests: int = option(
        60, "Requests in flight at once, over all replays of this process.", minimum=1
    )
    max_slices_ahead: int = option(
        240,
        "Slices of one replay that may lie on disk before their reader gets to them.",
        minimum=1,
    )
    max_attempts: int = option(30, "Attempts per slice before its error is final.", minimum=1)
    retry_budget_seconds: float = option(
        600, "Time spent on the attempts for one slice before its error is final.", minimum=0
    )
    retry_delay_max_seconds: float = option(
        120, "Longest computed pause between two attempts.", minimum=0
    )
    retry_after_max_seconds: float = option(
        300, "Longest pause that the data API can ask for by Retry-After.", minimum=0
    )
    connect_timeout_seconds: float = option(30, "Longest wait for a connection.", minimum=0)
    idle_timeout_seconds: float = option(135, "Longest silence of a connection in use.", minimum=0)

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
