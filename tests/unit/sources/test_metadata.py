"""The instruments of the data API over real HTTP: answers, refusals, the cache."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tardis_machine.model.errors import OfflineError, SourceError, UpstreamStatusError
from tardis_machine.sources.metadata import client
from tardis_machine.sources.metadata.client import InstrumentsApi, MetadataSettings
from tests.servers.ports import free_port

BODY = (
    b'[{"id":"XBTUSD","exchange":"bitmex","baseCurrency":"BTC","quoteCurrency":"USD",'
    b'"type":"perpetual","active":true,"inverse":true,"contractMultiplier":1}]'
)
KEY = "TD.secret"


class Api:
    """Answers with what is set, and notes who asked."""

    def __init__(self) -> None:
        self.answers: list[web.Response] = []
        self.asked: list[tuple[str, str | None]] = []
        self.port = free_port()

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, request.headers.get("Authorization")))
        return self.answers.pop(0)


@asynccontextmanager
async def data_api(*answers: web.Response) -> AsyncIterator[Api]:
    api = Api()
    api.answers = list(answers)
    app = web.Application()
    app.router.add_get("/v1/{path:.*}", api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", api.port).start()
    try:
        yield api
    finally:
        await runner.cleanup()


def settings(folder: Path, port: int) -> MetadataSettings:
    endpoint = f"http://127.0.0.1:{port}/v1/"
    return MetadataSettings(endpoint=endpoint, cache_dir=folder, api_key=KEY)


async def test_instruments_are_asked_for_once_a_day_with_the_key(tmp_path: Path) -> None:
    async with data_api(web.Response(body=BODY), web.Response(body=b"[]")) as api:
        client_ = InstrumentsApi(settings(tmp_path, api.port))
        first = await client_.fetch("bitmex")
        assert await client_.fetch("bitmex") == first
        assert [each.id for each in first] == ["XBTUSD"]
        assert api.asked == [("/v1/instruments/bitmex", f"Bearer {KEY}")]
        (kept,) = (tmp_path / "instruments").iterdir()
        os.utime(kept, (0, 0))
        assert await client_.fetch("bitmex") == []


async def test_what_was_kept_serves_offline(tmp_path: Path) -> None:
    offline = InstrumentsApi(replace(settings(tmp_path, free_port()), offline=True))
    with pytest.raises(OfflineError, match="bitmex"):
        await offline.fetch("bitmex")
    kept = tmp_path / "instruments" / "bitmex.json"
    kept.parent.mkdir()
    kept.write_bytes(BODY)
    os.utime(kept, (0, 0))
    assert len(await offline.fetch("bitmex")) == 1


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "--api-key"), (403, "subscription"), (404, "knows no instruments")]
)
async def test_refusal_says_what_to_do_and_hides_the_key(
    tmp_path: Path, status: int, hint: str
) -> None:
    async with data_api(web.Response(status=status, text=f"no {KEY}")) as api:
        with pytest.raises(UpstreamStatusError, match=hint) as caught:
            await InstrumentsApi(settings(tmp_path, api.port)).fetch("bitmex")
    assert KEY not in str(caught.value)
    assert len(api.asked) == 1
    assert not (tmp_path / "instruments").exists()


async def test_failure_that_may_pass_is_tried_again_and_not_for_ever(tmp_path: Path) -> None:
    broken = [web.Response(status=503) for _ in range(client.MAX_ATTEMPTS + 2)]
    async with data_api(*broken[:2], web.Response(body=BODY), *broken[2:]) as api:
        api_client = InstrumentsApi(settings(tmp_path, api.port))
        assert len(await api_client.fetch("bitmex")) == 1
        with pytest.raises(UpstreamStatusError, match="503"):
            await api_client.fetch("deribit")
        assert len(api.asked) == 2 * client.MAX_ATTEMPTS


async def test_nobody_there_and_nonsense_are_errors_with_the_address(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(SourceError, match=f"did not answer at http://127.0.0.1:{port}"):
        await InstrumentsApi(settings(tmp_path, port)).fetch("bitmex")
    async with data_api(web.Response(text="<html>")) as api:
        with pytest.raises(SourceError, match="not a list of instruments"):
            await InstrumentsApi(settings(tmp_path, api.port)).fetch("bitmex")
