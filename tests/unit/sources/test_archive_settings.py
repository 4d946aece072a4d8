"""Settings of the archive: safe to show, and refused together when they cannot work."""

import pytest

from tardis_machine.model.errors import SettingsError
from tardis_machine.sources.settings import ArchiveSettings


def test_the_key_is_not_shown() -> None:
    assert "secret-key" not in repr(ArchiveSettings(api_key="secret-key"))


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(SettingsError) as caught:
        ArchiveSettings(
            endpoint="api.tardis.dev",
            compression="brotli",  # type: ignore[arg-type]
            max_concurrent_requests=0,
        )
    assert caught.value.problems == (
        "endpoint must start with http:// or https://, got 'api.tardis.dev'.",
        "compression must be zstd or gzip, got 'brotli'.",
        "max_concurrent_requests must be at least 1, got 0.",
    )
