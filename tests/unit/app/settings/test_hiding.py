"""No secret is ever part of an error, wherever it was put by mistake."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tardis_machine.app.settings.command_line import read_command_line
from tardis_machine.app.settings.commands import ServeSettings
from tardis_machine.app.settings.loading import load_settings, settings_from
from tardis_machine.app.settings.options import Vocabulary, options_of
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import Secret, option
from tardis_machine.sources.settings import ArchiveSettings

SECRET = "hunter2"


@dataclass(frozen=True, kw_only=True)
class Root:
    """All."""

    config: Path | None = option(None, "File.")
    port: int = option(8000, "Port.")
    debug: bool = option(default=False, help="Debug.")
    password: Secret | None = option(None, "Password.")


def problems_of(settings: type, words: list[str]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(settings, words)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["--password-file", SECRET],
            "--password-file: the file that it names cannot be read: No such file or directory.",
        ),
        (
            ["--password", f"-{SECRET}"],
            "Option '--password' requires a value; use '--password=…' for one that starts with a "
            "dash.",
        ),
        (
            ["--password", f"--{SECRET}", "--debug"],
            "Option '--password' requires a value; use '--password=…' for one that starts with a "
            "dash.",
        ),
        (
            ["--password", "first", SECRET],
            "Unexpected argument after '--password'; put a value with blanks in quotes.",
        ),
        (
            ["--password", "first", f"-{SECRET}", SECRET],
            "Unknown option after '--password'; it is not shown, because it may be part of a "
            "secret.",
        ),
        (["--pasword", SECRET], "Unknown option '--pasword'. Did you mean '--password'?"),
        ([f"--pasword={SECRET}"], "Unknown option '--pasword'. Did you mean '--password'?"),
        (
            [f"--password:{SECRET}"],
            "Option '--password' takes its value as '--password …' or '--password=…'.",
        ),
    ],
)
def test_misplaced_secret_is_refused_and_not_shown(words: list[str], problem: str) -> None:
    assert problems_of(Root, words) == [problem]


def test_secret_behind_a_mistyped_option_is_not_shown() -> None:
    problems = problems_of(Root, ["--pasword", f"-{SECRET}", "--debug"])
    assert len(problems) == 2
    assert SECRET not in "".join(problems)


def test_word_that_is_no_secret_is_still_named() -> None:
    assert problems_of(Root, ["--password", "--prot", "1"]) == [
        "Option '--password' requires a value; use '--password=…' for one that starts with a dash.",
        "Unknown option '--prot'. Did you mean '--port'?",
    ]
    assert problems_of(Root, ["--password=x", "--debug", "stray"]) == [
        "Unexpected argument 'stray'."
    ]


def test_flag_behind_a_secret_without_value_is_read() -> None:
    line = read_command_line(["--password", "--debug"], Vocabulary(options_of(Root)))
    assert [given.origin for given in line.given] == ["--debug"]


@pytest.mark.parametrize(
    "word",
    [
        f"--nats-servers=u:{SECRET}@h",
        f"--nats-servers=nats://u:{SECRET}@h:4222",
        f"--nats-servers=nats://u:a,{SECRET}@h,nats://ok:4222",
        f"--nats-servers=nats://u:{SECRET},a@h",
        f"--nats-servers=nats://u:a {SECRET}@h",
        f"--kafka-brokers={SECRET}@h:9092",
        f"--kafka-brokers=u:{SECRET}@h:9092",
        f"--kafka-brokers=u:{SECRET},x@h:9092",
        f"--redis-host=redis://:{SECRET}@h",
        f"--redis-host=u:{SECRET}@h",
        f"--redis-sentinel-hosts=u:{SECRET}@h:26379",
        f"--redis-sentinel-hosts={SECRET}@h:26379",
        f"--redis-url=http://u:{SECRET}@h",
        f"--kinesis-endpoint-url=http://u:{SECRET}@h",
        f"--event-hubs-custom-endpoint=u:{SECRET}@h",
        f"--event-hubs-namespace=u:{SECRET}@h",
        f"--kafka-schema-registry-url=http://u:{SECRET}@h",
        f"--kafka-oauth-token-url=http://u:{SECRET}@h",
        f"--redis-port=u:{SECRET}@h",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_shown(word: str) -> None:
    on = ["--redis-stream=s", "--event-hubs-event-hub-name=h", "--kafka-sasl-mechanism=oauthbearer"]
    problems = problems_of(PublishingSettings, [word, *on])
    assert any(word[2:].partition("=")[0] in problem for problem in problems)
    assert SECRET not in "".join(problems)


@pytest.mark.parametrize(
    "value",
    [
        f"http://u:{SECRET}@[h",
        f"http://u:{SECRET}\u2100@h",
        f'["u:{SECRET}@h", "b"]',
        f'{{"trade": "u:{SECRET}@h"}}',
        f"Endpoint=sb://[x/;SharedAccessKeyName=a;SharedAccessKey={SECRET}",
    ],
)
def test_secret_in_any_option_shows_in_no_problem(value: str) -> None:
    # All at once: each option has its own problem.
    options = [option for option in options_of(ServeSettings) if option.flags]
    words = [f"{option.flags[0]}={value}" for option in options if option.name != "config"]
    found = "\n".join(problems_of(ServeSettings, words))
    assert "kafka-brokers" in found
    assert "event-hubs-c" in found
    assert SECRET not in found


def test_credentials_are_hidden_from_python_callers_too() -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from(PublishingSettings, {"kafka": {"brokers": [f"u:{SECRET}@h"], "topic": "t"}})
    assert SECRET not in str(caught.value)


def test_archive_address_with_credentials_is_not_shown() -> None:
    assert problems_of(ArchiveSettings, [f"--endpoint=u:{SECRET}@h"]) == [
        "endpoint must start with http:// or https://, got '***@h'."
    ]


def test_password_of_a_proxy_is_neither_in_the_settings_nor_in_their_rows() -> None:
    loaded = load_settings(ArchiveSettings, [f"--http-proxy=http://u:{SECRET}@h:80"])
    assert loaded.settings.http_proxy == f"http://u:{SECRET}@h:80"
    assert SECRET not in repr(loaded.settings) + str(loaded.rows())
