"""What a careless client is told."""

import json
import logging

import pytest

from tests.compat.conftest import Client
from tests.compat.recorded import FROM, TO

NORMALIZED = {"exchange": "bitmex", "from": FROM, "to": TO, "dataTypes": ["trade"]}


async def warning(client: Client, *data_types: str, **options: object) -> str | None:
    entry = {**NORMALIZED, "dataTypes": ["trade", *data_types], **options}
    params = {"options": json.dumps(entry)}
    url = client.machine.http_url + "/replay-normalized"
    async with client.session.get(url, params=params) as response:
        assert response.status == 200, await response.text()
        return response.headers.get("Warning")


async def test_data_types_that_give_nothing_are_named_in_a_header_and_in_the_log(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert await warning(client, "quote_1s") is None
    assert "asks for nothing" in (await warning(client, "trade_bar_0s") or "")
    assert "book_snapshot_0_1s" in (await warning(client, "book_snapshot_0_1s") or "")
    assert 'type tra"de ignored' not in (await warning(client, 'tra"\r\nde') or "")
    assert "unknown data type trades ignored" in (await warning(client, "trades") or "")
    assert "data types that ask for nothing" in caplog.text


async def test_symbols_that_never_come_are_named_in_the_log(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await client.lines("/replay-normalized", {**NORMALIZED, "symbols": ["xbtusd", "ETHUSD"]})
        assert caplog.messages == []
        await client.lines("/replay-normalized", {**NORMALIZED, "symbols": ["XBTUSD", "XBTUSB"]})
    assert "symbols without records" in caplog.text
    assert "XBTUSB" in caplog.text
    assert "'XBTUSD'" not in caplog.text


async def test_symbols_that_never_come_are_named_in_the_header_of_an_empty_response(
    client: Client,
) -> None:
    assert await warning(client, symbols=["XBTUSD"]) is None
    # The headers of a response that has begun are gone.
    assert await warning(client, symbols=["XBTUSD", "XBTUSB"]) is None
    named = await warning(client, symbols=["XBTUSB", 'X"\r\n'])
    assert named is not None
    assert "no records of bitmex X???, XBTUSB in the whole range" in named


async def test_nearest_exchange_follows_the_known_text(client: Client) -> None:
    status, _, body = await client.get("/replay-normalized", {**NORMALIZED, "exchange": "bitmx"})
    assert status == 500
    message = "normalizeTrades: bitmx not supported. Did you mean 'bitmex'?"
    assert json.loads(body)["message"] == message
    _, _, body = await client.get("/replay-normalized", {**NORMALIZED, "exchange": "zzz"})
    assert json.loads(body)["message"] == "normalizeTrades: zzz not supported"
