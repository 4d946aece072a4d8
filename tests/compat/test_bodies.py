"""Heads and bodies of requests: compressed, damaged, endless, late."""

import asyncio
import gzip
import json
import zlib
from io import BytesIO

import pytest

from tests.compat.conftest import Client
from tests.compat.recorded import FROM, TO
from tests.servers.data_api import DataApiStub, Fault
from tests.servers.memory import peak_memory_mb

RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
BODY = json.dumps(RAW).encode()


async def post(client: Client, body: bytes, encoding: str) -> tuple[int, str]:
    url, headers = client.machine.http_url + "/replay", {"Content-Encoding": encoding}
    async with client.session.post(
        url, data=BytesIO(body), headers=headers, compress=False
    ) as response:
        return response.status, await response.text()


def bare_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("identity", BODY),
        ("gzip", gzip.compress(BODY, mtime=0)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", bare_deflate(BODY)),
    ],
)
async def test_compressed_body_is_understood(client: Client, encoding: str, body: bytes) -> None:
    status, text = await post(client, body, encoding)
    assert (status, text.count("\n")) == (200, 6)


@pytest.mark.parametrize(
    ("encoding", "body", "status", "words"),
    [
        ("gzip", b"no gzip", 400, "not valid gzip"),
        ("gzip", gzip.compress(BODY, mtime=0)[:-4], 400, "ends too early"),
        ("deflate", b"\x78\x9cnothing", 400, "not valid deflate"),
        ("br", BODY, 415, "gzip, as deflate or as it is"),
        ("identity", b" " * 1_100_000, 413, "--max-body-bytes"),
    ],
)
async def test_body_that_cannot_be_read_is_refused_with_the_reason(
    client: Client, encoding: str, body: bytes, status: int, words: str
) -> None:
    got, text = await post(client, body, encoding)
    assert got == status
    assert words in json.loads(text)["message"]


async def test_body_that_expands_without_end_is_refused_and_costs_nothing(client: Client) -> None:
    bomb = gzip.compress(b" " * 150_000_000)
    with peak_memory_mb() as growth:
        status, text = await post(client, bomb, "gzip")
    assert status == 413
    assert "--max-body-bytes" in text
    assert growth() < 30


class TestImpatientServer:
    """A server that waits for requests only a moment."""

    @pytest.fixture
    def server_options(self) -> dict[str, float]:
        return {"request_timeout_seconds": 0.5}

    @pytest.mark.parametrize("head", [b"", b"GET /health-check HTTP/1.1\r\nHost: localhost\r\n"])
    @pytest.mark.parametrize("port", [0, 1])
    async def test_head_that_never_ends_is_disconnected(
        self, client: Client, head: bytes, port: int
    ) -> None:
        settings = client.machine.settings.server
        reader, writer = await asyncio.open_connection(settings.host, settings.port + port)
        writer.write(head)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()

    async def test_answer_may_take_longer_than_the_request(
        self, client: Client, data_api: DataApiStub
    ) -> None:
        data_api.faults = [Fault(times=None, delay_seconds=1.0)]
        assert len(await client.lines("/replay", RAW)) == 6

    async def test_body_that_never_ends_is_answered_with_408(self, client: Client) -> None:
        settings = client.machine.settings.server
        reader, writer = await asyncio.open_connection(settings.host, settings.port)
        head = (
            f"POST /replay HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY) + 1}\r\n\r\n"
        )
        writer.write(head.encode() + BODY)
        async with asyncio.timeout(60):
            answer = await reader.readuntil(b"}")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"request-timeout-seconds" in answer
        writer.close()
