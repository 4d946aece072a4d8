"""Web pages of strangers, foreign host names, tokens and TLS."""

import asyncio
import json
import logging
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tardis_machine.model.errors import SettingsError
from tardis_machine.server.guards.access import warn_of_open_network
from tardis_machine.server.settings import ServerSettings
from tests.compat.conftest import Client
from tests.compat.recorded import FROM, TO
from tests.servers.tls import make_certificates

RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
STRANGER = {"Origin": "https://stranger.example"}
CROSS_SITE = {"Sec-Fetch-Site": "cross-site"}
REBOUND = {"Host": "stranger.example:8000"}


async def get(client: Client, headers: dict[str, str], method: str = "GET") -> tuple[int, Any]:
    url = client.machine.http_url + "/replay"
    params = {"options": json.dumps({**RAW, "autoCleanup": True})}
    async with client.session.request(method, url, params=params, headers=headers) as response:
        return response.status, response.headers.get("Access-Control-Allow-Origin")


async def handshake(client: Client, headers: dict[str, str]) -> int:
    options = json.dumps({**RAW, "dataTypes": ["trade"]})
    url = client.machine.ws_url + "/ws-replay-normalized"
    try:
        async with client.session.ws_connect(url, params={"options": options}, headers=headers):
            return 101
    except aiohttp.WSServerHandshakeError as error:
        return error.status


@pytest.mark.parametrize("headers", [STRANGER, {"Origin": "null"}, CROSS_SITE, REBOUND])
async def test_request_of_a_stranger_is_refused_on_both_ports(
    client: Client, tmp_path: Path, headers: dict[str, str]
) -> None:
    assert await client.lines("/replay", RAW)
    cached = sorted((tmp_path / "cache").rglob("*.zst"))
    assert cached
    assert await get(client, headers) == (403, None)
    assert await get(client, headers, "OPTIONS") == (403, None)
    assert await handshake(client, headers) == 403
    assert sorted((tmp_path / "cache").rglob("*.zst")) == cached


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost:1"},
        {"Host": "LOCALHOST"},
        {"Host": "[::1]:8000"},
        {"Host": "127.8.8.8"},
        {"Host": "host.docker.internal:8000"},
        {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:8888"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_request_of_this_machine_is_served(client: Client, headers: dict[str, str]) -> None:
    assert await get(client, headers) == (200, headers.get("Origin"))
    assert await handshake(client, headers) == 101


async def test_refusal_names_the_setting_and_cuts_what_was_received(client: Client) -> None:
    url = client.machine.http_url + "/replay"
    for header, flag in (("Origin", "--allowed-origins"), ("Host", "--allowed-hosts")):
        async with client.session.get(url, headers={header: "x" * 5000}) as response:
            text = (await response.json())["message"]
        assert flag in text
        assert len(text) < 300


class TestAllowed:
    """A server that allows one page and one name."""

    @pytest.fixture
    def server_options(self) -> dict[str, Any]:
        return {
            "allowed_origins": ("https://Page.example/",),
            "allowed_hosts": ("machine.example",),
        }

    async def test_page_and_name_of_the_lists_are_served(self, client: Client) -> None:
        page = {"Origin": "https://page.example", "Sec-Fetch-Site": "cross-site"}
        assert await get(client, page) == (200, "https://page.example")
        assert await get(client, page, "OPTIONS") == (204, "https://page.example")
        assert await get(client, {"Host": "machine.example:8000"}) == (200, None)
        assert await handshake(client, page) == 101

    async def test_others_are_refused(self, client: Client) -> None:
        assert await get(client, STRANGER) == (403, None)
        assert await get(client, REBOUND) == (403, None)


class TestOpenToTheNetwork:
    """A server on all interfaces."""

    @pytest.fixture
    def server_options(self) -> dict[str, Any]:
        return {"host": "0.0.0.0"}

    async def test_any_name_is_served_but_no_page_of_a_stranger(self, client: Client) -> None:
        assert await get(client, {"Host": "machine.example"}) == (200, None)
        own = {"Host": "machine.example:9000", "Origin": "http://machine.example:9000"}
        assert await get(client, own) == (200, own["Origin"])
        assert await get(client, STRANGER) == (403, None)


class TestToken:
    """A server that asks its clients for a token."""

    @pytest.fixture
    def server_options(self) -> dict[str, str]:
        return {"token": "letmein"}

    @pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
    async def test_scheme_is_understood_in_any_case(self, client: Client, scheme: str) -> None:
        assert (await get(client, {"Authorization": f"{scheme} letmein"}))[0] == 200

    async def test_token_that_is_no_text_is_refused(self, client: Client) -> None:
        settings = client.machine.settings.server
        reader, writer = await asyncio.open_connection(settings.host, settings.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: \xff\xfe\r\n\r\n")
        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()

    async def test_health_check_stays_open(self, client: Client) -> None:
        assert (await client.get("/health-check"))[0] == 200


class TestTls:
    """A server that speaks TLS, in this process and with workers."""

    @pytest.fixture(params=[1, 2])
    def server_options(self, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
        made = make_certificates(tmp_path)
        return {"tls_cert": made.cert, "tls_key": made.key, "workers": request.param}

    async def test_both_ports_are_encrypted_and_sessions_meet(
        self, client: Client, tmp_path: Path
    ) -> None:
        assert client.machine.http_url.startswith("https://")
        trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
            trusting = Client(client.machine, session)
            assert len(await trusting.lines("/replay", RAW)) == 6
            subscribe = {"op": "subscribe", "args": ["trade"]}
            received = await asyncio.gather(
                *(
                    trusting.websocket("/ws-replay", subscribe, session="one", **RAW)
                    for _ in range(3)
                )
            )
        assert [each.code for each in received] == [1000] * 3

    async def test_plain_text_is_not_answered(self, client: Client) -> None:
        settings = client.machine.settings.server
        reader, writer = await asyncio.open_connection(settings.host, settings.port)
        writer.write(b"GET /health-check HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(60):
            assert not (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


def test_certificate_without_key_is_refused(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    with pytest.raises(SettingsError, match="tls-cert and tls-key must be given together"):
        ServerSettings(tls_cert=made.cert)
    with pytest.raises(SettingsError, match="cannot be used"):
        ServerSettings(tls_cert=made.cert, tls_key=made.ca).tls_context()


def test_open_network_without_token_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_open_network(ServerSettings())
        warn_of_open_network(ServerSettings(host="localhost"))
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING):
        warn_of_open_network(ServerSettings(host="0.0.0.0"))
    assert "open to the network without a token" in caplog.text
