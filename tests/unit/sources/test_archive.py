"""Replaying the archive: what is asked of the data API, what comes out, what stays cached."""

from pathlib import Path

import pytest
import zstandard

from tardis_machine.model.requests import Filter, ReplayRange
from tardis_machine.model.time import SECOND_US
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.metrics import Metrics
from tardis_machine.version import __version__
from tests.servers.data_api import DataApiStub, Fault
from tests.unit.sources.recorded import (
    EXCHANGE,
    TRADES,
    all_lines,
    archive,
    cached_names,
    lines,
    minute,
    minutes,
    put_in_cache,
    read,
    recorded,
)


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
@pytest.mark.parametrize("filters", [(), TRADES])
@pytest.mark.parametrize("suggested", [1, 4, 10, 50])
async def test_a_range_comes_out_whole_and_in_order(
    tmp_path: Path, compression: str, filters: tuple[Filter, ...], suggested: int
) -> None:
    async with (
        DataApiStub(recorded(25), suggested_minutes=suggested) as stub,
        archive(stub.endpoint, tmp_path, compression=compression) as source,
    ):
        assert await read(source, 0, 25, filters) == all_lines(0, 25)
        suffix = ".zst" if compression == "zstd" else ".gz"
        assert all(name.endswith(suffix) for name in cached_names(tmp_path))


async def test_the_requests_are_those_of_the_published_plan(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(14), suggested_minutes=5) as stub,
        archive(stub.endpoint, tmp_path, api_key="secret") as source,
    ):
        await read(source, 0, 14)
    assert [(ask.offset, ask.minutes) for ask in stub.asks] == [
        (13, 1),
        (0, 1),
        (1, 5),
        (6, 5),
        (11, 2),
    ]
    assert stub.asks[2].path == (
        "/v1/data-feeds/bitmex?from=2024-03-01T00:00:00.000Z&offset=1&compression=zstd-multiframe"
        "&sliceSize=5&filters=%5B%7B%22channel%22%3A%22trade%22%2C%22symbols%22%3A%5B%22XBTUSD%22"
        "%5D%7D%5D"
    )
    assert cached_names(tmp_path) == [
        "2024/03/01/00/00.json.zst",
        "2024/03/01/00/01.size-5.json.zst",
        "2024/03/01/00/06.size-5.json.zst",
        "2024/03/01/00/11.size-2.json.zst",
        "2024/03/01/00/13.json.zst",
    ]
    headers = stub.asks[0].headers
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Accept-Encoding"] == "zstd, gzip"
    assert headers["User-Agent"].startswith(f"tardis-machine/{__version__} (+")


async def test_the_key_of_the_request_wins_and_no_key_sends_no_header(tmp_path: Path) -> None:
    async with DataApiStub(recorded(1)) as stub:
        async with archive(stub.endpoint, tmp_path, api_key="server", compression="gzip") as source:
            await read(source, 0, 1, api_key="client")
        async with archive(stub.endpoint, tmp_path) as source:
            await read(source, 0, 1)
    assert stub.asks[0].headers["Authorization"] == "Bearer client"
    assert stub.asks[0].headers["Accept-Encoding"] == "gzip"
    assert "Authorization" not in stub.asks[1].headers


async def test_a_proxy_gets_all_requests(tmp_path: Path) -> None:
    async with DataApiStub(recorded(1)) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        async with archive("http://data.invalid/v1", tmp_path, http_proxy=address) as source:
            assert await read(source, 0, 1) == all_lines(0, 1)
    assert proxy.asks[0].headers["Host"] == "data.invalid"


async def test_the_whole_feed_is_asked_for_by_the_minute(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(5), suggested_minutes=10) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        await read(source, 0, 5, ())
    assert [(ask.offset, ask.minutes, ask.filters) for ask in stub.asks] == [
        (4, 1, None),
        (0, 1, None),
        (1, 1, None),
        (2, 1, None),
        (3, 1, None),
    ]


async def test_an_empty_range_asks_for_nothing(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(1)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        assert await read(source, 3, 3) == b""
    assert stub.asks == []


async def test_an_exact_range_gets_the_whole_minutes_around_it(tmp_path: Path) -> None:
    around = ReplayRange(minute(1) + 30 * SECOND_US, minute(2) + SECOND_US)
    async with (
        DataApiStub(recorded(5)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        data = [chunk.data async for chunk in source.lines(EXCHANGE, TRADES, around)]
    assert b"".join(data) == all_lines(1, 3)


async def test_a_second_replay_asks_only_for_the_edges(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(20), suggested_minutes=4) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        await read(source, 0, 20)
        stub.asks.clear()
        assert await read(source, 0, 20) == all_lines(0, 20)
    assert stub.offsets == [19, 0]


async def test_a_shifted_range_uses_every_cached_minute(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(40), suggested_minutes=10) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        await read(source, 0, 30)
        stub.asks.clear()
        assert await read(source, 7, 36) == all_lines(7, 36)
    asked = [(ask.start_us, ask.minutes) for ask in stub.asks]
    assert asked == [(minute(35), 1), (minute(7), 1), (minute(30), 5)]


async def test_holes_in_the_cache_are_filled_without_asking_twice(tmp_path: Path) -> None:
    for number in (3, 4, 8):
        put_in_cache(tmp_path, number, lines(number), suffix=".gz")
    async with (
        DataApiStub(recorded(12), suggested_minutes=10) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        assert await read(source, 0, 12) == all_lines(0, 12)
    assert [(ask.offset, ask.minutes) for ask in stub.asks] == [
        (11, 1),
        (0, 1),
        (1, 2),
        (5, 3),
        (9, 2),
    ]


async def test_cached_whole_feeds_serve_any_filter_and_say_so(tmp_path: Path) -> None:
    for number in range(1, 3):
        put_in_cache(tmp_path, number, lines(number), ())
    async with (
        DataApiStub(recorded(4)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        chunks = [chunk async for chunk in source.lines(EXCHANGE, TRADES, minutes(0, 4))]
    assert [(chunk.data, chunk.needs_local_filter) for chunk in chunks] == [
        (lines(0), False),
        (lines(1), True),
        (lines(2), True),
        (lines(3), False),
    ]
    assert stub.offsets == [3, 0]


async def test_a_whole_feed_that_was_asked_for_needs_no_filter(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(3)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        chunks = [chunk async for chunk in source.lines(EXCHANGE, (), minutes(0, 3))]
    assert [chunk.needs_local_filter for chunk in chunks] == [False] * 3


async def test_a_missing_slice_size_means_the_requested_one(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(12), suggested_minutes=10, omits_slice_size=True) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        assert await read(source, 0, 12) == all_lines(0, 12)


async def test_a_shorter_slice_than_asked_for_is_completed(tmp_path: Path) -> None:
    body = zstandard.ZstdCompressor().compress(all_lines(1, 4))
    fault = Fault(offset=1, replaces_body=body, headers={"x-slice-size": "3"})
    async with (
        DataApiStub(recorded(12), suggested_minutes=10, faults=[fault]) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        assert await read(source, 0, 12) == all_lines(0, 12)
        assert await read(source, 0, 12) == all_lines(0, 12)
    assert "2024/03/01/00/01.size-3.json.zst" in cached_names(tmp_path)


async def test_a_longer_slice_than_asked_for_is_cut(tmp_path: Path) -> None:
    body = zstandard.ZstdCompressor().compress(all_lines(0, 2))
    fault = Fault(offset=0, times=None, replaces_body=body, headers={"x-slice-size": "2"})
    async with (
        DataApiStub(recorded(4), faults=[fault]) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        assert await read(source, 0, 4) == all_lines(0, 4)


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
async def test_a_cache_folder_can_be_served_as_a_data_api(tmp_path: Path, suffix: str) -> None:
    for number in range(9):
        put_in_cache(tmp_path / "recorded", number, lines(number), (), suffix=suffix)
    async with (
        DataApiStub(folder=tmp_path / "recorded", suggested_minutes=3) as stub,
        archive(stub.endpoint, tmp_path / "cache") as source,
    ):
        assert await read(source, 0, 9) == all_lines(0, 9)
    assert [name.endswith(suffix) for name in cached_names(tmp_path / "cache")] == [True] * 5


async def test_metrics_count_slices_and_bytes(tmp_path: Path) -> None:
    metrics = Metrics()
    put_in_cache(tmp_path, 1, lines(1))
    async with (
        DataApiStub(recorded(3)) as stub,
        ArchiveSource(
            ArchiveSettings(endpoint=stub.endpoint, cache_dir=tmp_path), metrics=metrics.archive
        ) as source,
    ):
        await read(source, 0, 3)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"tardis_machine_archive_{name}", labels)

    assert value("slices_total", origin="network") == 2
    assert value("slices_total", origin="cache") == 1
    assert (value("downloaded_bytes_total") or 0) > 0
    assert value("download_seconds_count") == 2
    assert value("active_downloads") == 0
