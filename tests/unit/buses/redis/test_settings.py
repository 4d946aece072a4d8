"""Options of the Redis bus: what is derived, what is refused, what is never shown."""

from pathlib import Path
from typing import Any

import pytest

from tardis_machine.app.settings.loading import load_settings
from tardis_machine.buses.redis.client import Link, connection_options, sentinel_options
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import Secret

ON: dict[str, Any] = {"host": "server", "stream": "bronze"}


def problems(**options: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        RedisSettings(**{**ON, **options})
    return caught.value.problems


def test_nothing_given_is_off_and_valid() -> None:
    assert not RedisSettings().is_on


@pytest.mark.parametrize(
    "options",
    [
        {"host": "server"},
        {"url": Secret("redis://server")},
        {"sentinel_hosts": ("s:26379",), "sentinel_master": "main"},
    ],
)
def test_any_way_to_a_server_switches_it_on(options: dict[str, Any]) -> None:
    assert RedisSettings(**options, stream="s").is_on


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"stream": None}, "redis-stream is required when redis-url or redis-host is set."),
        ({"url": Secret("redis://x")}, "Use redis-url or redis-host, not both."),
        ({"host": None, "url": Secret("http://x")}, "redis-url must start with redis://"),
        (
            {"host": None, "url": Secret("redis://:word@h:port/0")},
            "redis-url must be a URL with host and port.",
        ),
        (
            {"host": None, "url": Secret("redis://h/0?db=1&decode_responses=true")},
            "redis-url: decode_responses not allowed in the URL; only db is.",
        ),
        (
            {"sentinel_hosts": ("s:1",), "sentinel_master": "m"},
            "redis-sentinel-hosts must not be combined with",
        ),
        (
            {"host": None, "sentinel_hosts": ("s:1",)},
            "redis-sentinel-hosts and redis-sentinel-master must be given together.",
        ),
        (
            {"host": None, "sentinel_hosts": ("s",), "sentinel_master": "m"},
            'redis-sentinel-hosts: "s" must be host:port.',
        ),
        ({"cluster": "on", "db": 3}, "redis-db must be 0 with redis-cluster=on."),
        ({"tls_ca": Path("missing.pem")}, "redis-tls-ca: missing.pem is not a file."),
        ({"tls_key": Path(__file__)}, "redis-tls-cert and redis-tls-key must be given together."),
        ({"max_length": 5, "max_age_ms": 5}, "Use redis-max-length or redis-max-age-ms, not both."),
        (
            {"data_field": "body", "static_headers": {"body": "x"}},
            'cannot override redis-data-field "body".',
        ),
        ({"static_headers": {"key": "x"}}, 'cannot override reserved header "key".'),
        ({"idempotent": "on", "entry_id": "monotonic"}, "redis-idempotent=on requires"),
        ({"wait_replicas": 1, "wait_timeout_ms": 5000}, "redis-wait-timeout-ms must be below"),
        ({"key_template": "{{foo}}"}, 'Unknown redis-key-template placeholder "{{foo}}".'),
        (
            {"stream_routing": {"foo": "s"}},
            "Unknown payload case(s) for redis-stream-routing: foo.",
        ),
    ],
)
def test_contradictions_are_named(options: dict[str, Any], expected: str) -> None:
    (problem,) = problems(**options)
    assert expected in problem


def test_all_problems_come_together() -> None:
    assert len(problems(stream=None, url=Secret("http://x"), cluster="on", db=1)) == 4


def test_secrets_are_shown_nowhere() -> None:
    settings = RedisSettings(
        url=Secret("redis://user:word-one@server"), sentinel_password=Secret("word-two"), stream="s"
    )
    assert "word-" not in f"{settings!r} {settings}"


def test_flags_reach_the_settings_under_both_names() -> None:
    words = ["--redis-url", "redis://h", "--redis-stream-template", "{{{symbol}}}:trades"]
    redis = load_settings(PublishingSettings, words).settings.redis
    assert redis.key_template == "{{{symbol}}}:trades"
    assert redis.url == Secret("redis://h")


def test_url_decides_and_other_options_fill_in() -> None:
    url = Secret("rediss://user:pw@server:7000/2")
    options = connection_options(RedisSettings(url=url, stream="s", tls_verify=False))
    assert (options["host"], options["port"], options["db"]) == ("server", 7000, 2)
    assert (options["username"], options["password"]) == ("user", "pw")
    assert options["ssl_cert_reqs"] == "none"
    assert Link(options).where == "server:7000"


def test_unix_socket_needs_no_host() -> None:
    options = connection_options(RedisSettings(url=Secret("unix:///run/redis.sock"), stream="s"))
    assert Link(options).where == "/run/redis.sock"


def test_sentinels_have_their_own_password() -> None:
    settings = RedisSettings(
        sentinel_hosts=("a:1", "[::1]:2"),
        sentinel_master="main",
        sentinel_password=Secret("theirs"),
        password=Secret("ours"),
        stream="s",
    )
    assert settings.sentinel_addresses == [("a", 1), ("::1", 2)]
    assert sentinel_options(settings, ("a", 1))["password"] == "theirs"
    assert connection_options(settings)["password"] == "ours"


def test_client_never_repeats_a_batch_by_itself() -> None:
    options = connection_options(RedisSettings(**ON))
    assert options["retry"].get_retries() == 0
    assert options["socket_timeout"] == 5
