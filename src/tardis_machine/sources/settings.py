"""Settings of the archive: the data API, the cache and the patience with both."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tardis_machine.model.errors import SettingsError

Compression = Literal["zstd", "gzip"]


def _default_cache_dir() -> Path:
    return Path(tempfile.gettempdir()) / ".tardis-cache"


@dataclass(frozen=True, kw_only=True)
class ArchiveSettings:
    """Where recorded data comes from, and how hard to try."""

    endpoint: str = field(
        default="https://api.tardis.dev/v1", metadata={"help": "Base address of the data API."}
    )
    api_key: str | None = field(
        default=None,
        repr=False,
        metadata={
            "help": "Key for the data API. Without one, only the first day of each month is "
            "readable.",
            "secret": True,
        },
    )
    cache_dir: Path = field(
        default_factory=_default_cache_dir, metadata={"help": "Root folder of cached slices."}
    )
    offline: bool = field(
        default=False, metadata={"help": "Read the cache only and never use the network."}
    )
    trust_cache: bool = field(
        default=False,
        metadata={
            "help": "Also take the first and last minute of a range from the cache, without "
            "asking the data API whether the key grants access to the range."
        },
    )
    compression: Compression = field(
        default="zstd", metadata={"help": "Compression asked of the data API: zstd or gzip."}
    )
    http_proxy: str | None = field(
        default=None, metadata={"help": "Proxy for all requests to the data API."}
    )
    max_concurrent_requests: int = field(
        default=60,
        metadata={"help": "Requests in flight at once, over all replays of this process."},
    )
    max_slices_ahead: int = field(
        default=240,
        metadata={
            "help": "Slices of one replay that may lie on disk before their reader gets to them."
        },
    )
    max_attempts: int = field(
        default=30, metadata={"help": "Attempts per slice before its error is final."}
    )
    retry_budget_seconds: float = field(
        default=600,
        metadata={"help": "Time spent on the attempts for one slice before its error is final."},
    )
    retry_delay_max_seconds: float = field(
        default=120, metadata={"help": "Longest computed pause between two attempts."}
    )
    retry_after_max_seconds: float = field(
        default=300,
        metadata={"help": "Longest pause that the data API can ask for by Retry-After."},
    )
    connect_timeout_seconds: float = field(
        default=30, metadata={"help": "Longest wait for a connection."}
    )
    idle_timeout_seconds: float = field(
        default=135, metadata={"help": "Longest silence of a connection in use."}
    )

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
