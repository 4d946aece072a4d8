"""When the data API or the network fails: retries, final errors, and nothing left behind."""

import gzip
from contextlib import aclosing
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import zstandard
from structlog.testing import capture_logs

from tardis_machine.model.errors import SliceError, SourceError, UpstreamStatusError
from tests.servers.data_api import DataApiStub, Fault
from tests.unit.sources.recorded import (
    EXCHANGE,
    TRADES,
    FakeTime,
    all_lines,
    archive,
    cached_names,
    files_in,
    lines,
    minutes,
    put_in_cache,
    read,
    recorded,
)


async def read_through(
    tmp_path: Path, *faults: Fault, count: int = 4, **settings: Any
) -> tuple[bytes, DataApiStub, FakeTime]:
    """Replay some minutes from a data API with faults."""
    time = FakeTime()
    async with (
        DataApiStub(recorded(count), faults=list(faults)) as stub,
        archive(stub.endpoint, tmp_path, time, **settings) as source,
    ):
        with capture_logs():
            return await read(source, 0, count), stub, time


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_a_refusal_surfaces_before_any_data_and_is_not_retried(
    tmp_path: Path, status: int
) -> None:
    fault = Fault(offset=3, times=None, status=status, body='{"code":101}')
    async with (
        DataApiStub(recorded(4), faults=[fault]) as stub,
        archive(stub.endpoint, tmp_path) as source,
        aclosing(source.lines(EXCHANGE, (), minutes(0, 4))) as chunks,
    ):
        with pytest.raises(UpstreamStatusError) as caught:
            await anext(chunks)
    error = caught.value
    url = f"{stub.endpoint}/data-feeds/bitmex?from=2024-03-01T00:00:00.000Z"
    assert (error.status, error.response_text) == (status, '{"code":101}')
    assert error.url == f"{url}&offset=3&compression=zstd-multiframe"
    text, _, hint = str(error).partition(". ")
    assert text == f'HttpError: status code: {status}, response text: {{"code":101}}'
    assert hint.startswith("No API key was given") == (status == 401)
    assert stub.offsets == [3]
    assert files_in(tmp_path) == []


async def test_a_compressed_refusal_is_readable(tmp_path: Path) -> None:
    body = gzip.compress(b"no access")
    fault = Fault(status=403, body=body, headers={"Content-Encoding": "gzip"})
    with pytest.raises(UpstreamStatusError, match="response text: no access"):
        await read_through(tmp_path, fault)


@pytest.mark.parametrize("retry_after", ["7", formatdate(7, usegmt=True)])
async def test_too_many_requests_wait_as_long_as_asked(tmp_path: Path, retry_after: str) -> None:
    fault = Fault(offset=2, times=2, status=429, headers={"Retry-After": retry_after})
    time = FakeTime(now_us=0)
    async with (
        DataApiStub(recorded(4), faults=[fault]) as stub,
        archive(stub.endpoint, tmp_path, time) as source,
    ):
        with capture_logs() as logs:
            assert await read(source, 0, 4) == all_lines(0, 4)
    assert time.pauses == ([7, 7] if retry_after == "7" else [7, 0])
    assert [entry["event"] for entry in logs] == ["data API request failed; retrying"] * 2
    assert [entry["attempt"] for entry in logs] == [1, 2]
    assert all(entry["endpoint"] and entry["reason"] for entry in logs)
    assert logs[0]["minute"] == "2024-03-01T00:02:00.000Z"


async def test_an_unreadable_retry_after_is_ignored(tmp_path: Path) -> None:
    fault = Fault(status=503, headers={"Retry-After": "soon"})
    data, _, time = await read_through(tmp_path, fault)
    assert data == all_lines(0, 4)
    assert time.pauses == [2]


async def test_server_errors_end_after_a_bounded_number_of_attempts(tmp_path: Path) -> None:
    fault = Fault(offset=3, times=None, status=500, body="broken")
    with pytest.raises(UpstreamStatusError, match="status code: 500, response text: broken"):
        await read_through(tmp_path, fault, max_attempts=4)


async def test_a_dead_network_ends_with_a_clear_error(tmp_path: Path) -> None:
    async with DataApiStub() as stub:
        endpoint = stub.endpoint
    time = FakeTime()
    async with archive(endpoint, tmp_path, time, retry_budget_seconds=60) as source:
        with (
            capture_logs(),
            pytest.raises(SourceError, match=r"did not answer at http://127.*Conn"),
        ):
            await read(source, 0, 1)
    assert time.pauses == [2, 4, 8, 16]


async def test_a_refused_date_is_tried_again(tmp_path: Path) -> None:
    fault = Fault(status=400, body="'from' must be in ISO 8601 format")
    data, stub, _ = await read_through(tmp_path, fault)
    assert data == all_lines(0, 4)
    assert len(stub.asks) == 5


async def test_an_unknown_encoding_is_final(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="Unsupported data feed content encoding: br"):
        await read_through(tmp_path, Fault(encoding="br"))
    assert files_in(tmp_path) == []


async def test_a_missing_encoding_means_gzip(tmp_path: Path) -> None:
    fault = Fault(offset=1, replaces_body=gzip.compress(lines(1)), headers={"Content-Encoding": ""})
    data, _, _ = await read_through(tmp_path, fault)
    assert data == all_lines(0, 4)
    assert "2024/03/01/00/01.json.gz" in cached_names(tmp_path)


async def test_an_impossible_address_is_final(tmp_path: Path) -> None:
    async with archive("http://[broken", tmp_path) as source:
        with pytest.raises(SourceError, match="request to the data API at"):
            await read(source, 0, 1)


async def test_an_unwritable_cache_is_final(tmp_path: Path) -> None:
    (tmp_path / "feeds").touch()
    with pytest.raises(SourceError, match="could not be written"):
        await read_through(tmp_path)


async def test_a_download_cut_short_is_fetched_again(tmp_path: Path) -> None:
    data, stub, time = await read_through(tmp_path, Fault(offset=1, is_cut=True))
    assert data == all_lines(0, 4)
    assert stub.offsets.count(1) == 2
    assert time.pauses == [2]
    assert len(cached_names(tmp_path)) == 4


async def test_a_stalled_download_is_fetched_again(tmp_path: Path) -> None:
    fault = Fault(offset=1, stalls=True)
    data, stub, _ = await read_through(tmp_path, fault, idle_timeout_seconds=0.1)
    assert data == all_lines(0, 4)
    assert stub.offsets.count(1) == 2


@pytest.mark.parametrize("filters", [(), TRADES])
async def test_an_unreadable_cached_slice_is_replaced(tmp_path: Path, filters: Any) -> None:
    path = put_in_cache(tmp_path, 1, lines(1), filters)
    path.write_bytes(path.read_bytes()[:-5])
    async with (
        DataApiStub(recorded(4)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        with capture_logs() as logs:
            assert await read(source, 0, 4, filters) == all_lines(0, 4)
        assert [entry["event"] for entry in logs] == [
            "cached slice unreadable; downloading it again"
        ]
        stub.asks.clear()
        assert await read(source, 0, 4, filters) == all_lines(0, 4)
    assert stub.offsets == [3, 0]


async def test_a_slice_that_breaks_halfway_delivers_no_line_twice(tmp_path: Path) -> None:
    compress = zstandard.ZstdCompressor().compress
    path = put_in_cache(tmp_path, 1, b"", size=2)
    path.write_bytes(compress(lines(1)) + compress(lines(2))[:-5])
    async with (
        DataApiStub(recorded(5)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        with capture_logs():
            assert await read(source, 0, 5) == all_lines(0, 5)
    assert [(ask.offset, ask.minutes) for ask in stub.asks] == [(4, 1), (0, 1), (3, 1), (1, 2)]


async def test_an_unreadable_whole_feed_is_replaced_as_a_whole_feed(tmp_path: Path) -> None:
    path = put_in_cache(tmp_path, 1, lines(1), ())
    path.write_bytes(b"garbage")
    async with (
        DataApiStub(recorded(3)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        with capture_logs():
            assert await read(source, 0, 3) == all_lines(0, 3)
    assert [(ask.offset, ask.filters is None) for ask in stub.asks][-1] == (1, True)


async def test_an_unreadable_slice_survives_when_it_cannot_be_replaced(tmp_path: Path) -> None:
    path = put_in_cache(tmp_path, 1, lines(1), ())
    path.write_bytes(b"garbage")
    fault = Fault(offset=1, times=None, status=401)
    with pytest.raises(UpstreamStatusError):
        await read_through(tmp_path, fault)
    assert path.read_bytes() == b"garbage"


async def test_a_slice_that_stays_unreadable_is_an_error(tmp_path: Path) -> None:
    fault = Fault(offset=1, times=None, replaces_body=b"garbage")
    with pytest.raises(SliceError, match=r"01\.json\.zst cannot be read"):
        await read_through(tmp_path, fault)


async def test_a_redirect_to_another_origin_drops_the_key(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(1)) as target,
        DataApiStub() as stub,
        archive(stub.endpoint, tmp_path, api_key="secret") as source,
    ):
        stub.faults.append(Fault(redirect_to=f"http://127.0.0.1:{target.port}"))
        assert await read(source, 0, 1) == all_lines(0, 1)
    assert "Authorization" in stub.asks[0].headers
    assert "Authorization" not in target.asks[0].headers
    assert target.asks[0].path == stub.asks[0].path


async def test_a_redirect_within_the_origin_keeps_the_key(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(1)) as stub,
        archive(stub.endpoint, tmp_path, api_key="secret") as source,
    ):
        stub.faults.append(Fault(redirect_to=f"http://127.0.0.1:{stub.port}"))
        assert await read(source, 0, 1) == all_lines(0, 1)
    assert [ask.headers["Authorization"] for ask in stub.asks] == ["Bearer secret"] * 2


async def test_a_second_redirect_is_an_error(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(1)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        stub.faults.append(Fault(times=2, redirect_to=f"http://127.0.0.1:{stub.port}"))
        with pytest.raises(UpstreamStatusError, match="status code: 302"):
            await read(source, 0, 1)
