"""Without a network: the cache alone, by choice or by need."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tardis_machine.model.errors import OfflineError, SliceError, SourceError, UpstreamStatusError
from tests.servers.data_api import DataApiStub, Fault
from tests.unit.sources.recorded import (
    TRADES,
    all_lines,
    archive,
    fill_cache,
    lines,
    put_in_cache,
    read,
    recorded,
)


@pytest.fixture
def nowhere(closed_port: int) -> str:
    """Return the address of a data API that is not there."""
    return f"http://127.0.0.1:{closed_port}/v1"


@pytest.mark.parametrize("cached", [TRADES, ()])
async def test_offline_reads_a_full_cache(nowhere: str, tmp_path: Path, cached: tuple[()]) -> None:
    fill_cache(tmp_path, 5, cached)
    async with archive(nowhere, tmp_path, offline=True) as source:
        assert await read(source, 0, 5) == all_lines(0, 5)
        assert await read(source, 2, 3) == all_lines(2, 3)


async def test_offline_reads_part_of_a_longer_slice(nowhere: str, tmp_path: Path) -> None:
    put_in_cache(tmp_path, 0, all_lines(0, 10), size=10)
    put_in_cache(tmp_path, 10, all_lines(10, 15), size=5)
    async with archive(nowhere, tmp_path, offline=True) as source:
        assert await read(source, 3, 12) == all_lines(3, 12)


async def test_offline_names_the_missing_minute_before_any_data(
    nowhere: str, tmp_path: Path
) -> None:
    fill_cache(tmp_path, 3)
    put_in_cache(tmp_path, 4, lines(4))
    async with archive(nowhere, tmp_path, offline=True) as source:
        with pytest.raises(OfflineError) as caught:
            await read(source, 0, 5)
    text = str(caught.value)
    assert "bitmex" in text
    assert "2024-03-01T00:03:00.000Z" in text
    assert str(tmp_path / "feeds" / "bitmex") in text


async def test_offline_never_deletes(nowhere: str, tmp_path: Path) -> None:
    fill_cache(tmp_path, 2)
    async with archive(nowhere, tmp_path, offline=True) as source:
        await read(source, 0, 2, auto_cleanup=True)
        assert await read(source, 0, 2) == all_lines(0, 2)


async def test_offline_leaves_an_unreadable_slice_and_says_which(
    nowhere: str, tmp_path: Path
) -> None:
    path = put_in_cache(tmp_path, 0, lines(0))
    path.write_bytes(b"garbage")
    async with archive(nowhere, tmp_path, offline=True) as source:
        with pytest.raises(SliceError, match=r"00\.json\.zst"):
            await read(source, 0, 1)
    assert path.read_bytes() == b"garbage"


async def test_a_trusted_cache_is_not_checked_at_the_data_api(tmp_path: Path) -> None:
    fill_cache(tmp_path, 5)
    async with (
        DataApiStub(recorded(7)) as stub,
        archive(stub.endpoint, tmp_path, trust_cache=True) as source,
    ):
        assert await read(source, 0, 5) == all_lines(0, 5)
        assert stub.asks == []
        assert await read(source, 0, 7) == all_lines(0, 7)
        assert stub.offsets == [6, 5]


async def test_an_unreachable_network_is_no_matter_when_the_cache_has_all(
    nowhere: str, tmp_path: Path
) -> None:
    fill_cache(tmp_path, 5)
    async with archive(nowhere, tmp_path) as source:
        with capture_logs() as logs:
            assert await read(source, 0, 5) == all_lines(0, 5)
    assert [(entry["log_level"], entry["event"]) for entry in logs] == [
        ("warning", "data API unavailable; reading the range from the cache")
    ]


async def test_an_unreachable_network_matters_when_the_cache_has_a_hole(
    nowhere: str, tmp_path: Path
) -> None:
    fill_cache(tmp_path, 2)
    put_in_cache(tmp_path, 3, lines(3))
    async with archive(nowhere, tmp_path, max_attempts=2) as source:
        with capture_logs(), pytest.raises(SourceError, match="did not answer"):
            await read(source, 0, 4)


async def test_a_full_cache_does_not_hide_a_refused_key(tmp_path: Path) -> None:
    fill_cache(tmp_path, 5)
    async with (
        DataApiStub(recorded(5), faults=[Fault(status=401)]) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        with pytest.raises(UpstreamStatusError):
            await read(source, 0, 5)
