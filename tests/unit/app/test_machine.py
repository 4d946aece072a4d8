"""The server as an object: its options, its ports, its end."""

import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog

from tardis_machine import SettingsError, TardisMachine, TardisMachineError
from tardis_machine.model.settings import Secret
from tardis_machine.telemetry.loggers import get_logger
from tests.servers.ports import free_ports

pytestmark = pytest.mark.usefixtures("restored_logging")


def test_options_are_those_of_the_command_line() -> None:
    settings = TardisMachine(
        port="8100", host="::1", cache_dir="cache", api_key="k", clear_cache=True, token="t"
    ).settings
    assert (settings.server.port, settings.archive.cache_dir) == (8100, Path("cache"))
    assert (settings.archive.api_key, settings.clear_cache) == ("k", True)
    assert settings.server.token == Secret("t")


def test_camel_case_and_tables_are_accepted() -> None:
    settings = TardisMachine(
        cacheDir="cache", maxConcurrentRequests=2, eventBus={"queueMaxMessages": 7}
    ).settings
    same = TardisMachine(
        cache_dir="cache", max_concurrent_requests=2, event_bus={"queue_max_messages": 7}
    )
    assert settings == same.settings


def test_secret_and_missing_values_are_taken_as_they_are() -> None:
    settings = TardisMachine(token=Secret("letmein"), api_key=None, port=None).settings
    assert settings.server.token == Secret("letmein")
    assert (settings.archive.api_key, settings.server.port) == (None, 8000)


def test_environment_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PORT", "TM_PORT", "TM_API_KEY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "1234")
    settings = TardisMachine().settings
    assert settings.server.port == 8000
    assert (settings.archive.api_key, settings.archive.http_proxy) == (None, None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"prot": 1}, "argument: unknown key 'prot'. Did you mean 'port'?"),
        ({"port": "web"}, "Invalid HTTP port: NaN."),
        ({"port": 65_535}, "Invalid HTTP port: 65535."),
        ({"workers": -1}, "workers must be an integer of at least 0."),
        ({"endpoint": "ftp://x"}, "endpoint must start with http:// or https://, got 'ftp://x'."),
        ({"config": "x.toml"}, "A config file is read by commands only"),
    ],
)
def test_bad_option_is_refused_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        TardisMachine(**options)
    assert str(caught.value).startswith(text)


def test_all_problems_are_told_together() -> None:
    with pytest.raises(SettingsError) as caught:
        TardisMachine(prot=1, workers=-1, token=["x"])
    assert len(caught.value.problems) == 3
    assert "'x'" not in str(caught.value)


def test_addresses_are_those_of_both_ports() -> None:
    machine = TardisMachine(port=8100)
    assert (machine.http_url, machine.ws_url) == ("http://127.0.0.1:8100", "ws://127.0.0.1:8101")
    assert TardisMachine(host="::1").http_url == "http://[::1]:8000"


def test_logs_go_where_the_application_sends_them(caplog: pytest.LogCaptureFixture) -> None:
    TardisMachine()
    get_logger("tardis_machine.server").warning("request failed", error="why")
    assert [record.message for record in caplog.records] == ["request failed error=why"]


def test_logs_of_an_application_with_its_own_set_up_are_left_alone() -> None:
    processors = [structlog.processors.KeyValueRenderer()]
    structlog.configure(processors=processors)
    TardisMachine()
    assert structlog.get_config()["processors"] == processors
    assert logging.getLogger("tardis_machine").handlers == []


async def health(machine: TardisMachine) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(machine.http_url + "/health-check") as response,
    ):
        return response.status


async def test_it_serves_while_open_and_can_be_started_again(tmp_path: Path) -> None:
    machine = TardisMachine(port=free_ports(), cache_dir=tmp_path)
    for _ in range(2):
        async with machine as opened:
            assert opened is machine
            assert await health(machine) == 200
        with pytest.raises(aiohttp.ClientConnectionError):
            await health(machine)


async def test_taken_port_is_a_clear_error(tmp_path: Path) -> None:
    async with TardisMachine(port=free_ports(), cache_dir=tmp_path) as first:
        port = first.settings.server.port
        with pytest.raises(TardisMachineError, match=f"Cannot listen on 127.0.0.1, ports {port}"):
            await TardisMachine(port=port, cache_dir=tmp_path).start()
        assert await health(first) == 200


async def test_cache_is_cleared_at_start_when_asked(tmp_path: Path) -> None:
    cached = tmp_path / "feeds" / "bitmex" / "slice"
    cached.parent.mkdir(parents=True)
    cached.touch()
    async with TardisMachine(port=free_ports(), cache_dir=tmp_path, clear_cache=True):
        assert not cached.exists()
