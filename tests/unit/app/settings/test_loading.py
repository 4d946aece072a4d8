import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tardis_machine.app.settings.loading import Loaded, load_settings, settings_from
from tardis_machine.app.settings.options import KnownNames
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import REQUIRED, Secret, argument, group, option


@dataclass(frozen=True, kw_only=True)
class Kafka:
    """Kafka."""

    brokers: tuple[str, ...] = option((), "Bootstrap servers.")
    topic: str | None = option(None, "Topic.")
    acks: int = option(1, "Acks.", minimum=-1, maximum=1)
    password: Secret | None = option(None, "Password.")
    user: str | None = option(None, "User.")
    ssl: bool = option(default=False, help="Use TLS.")
    idempotent: bool = option(default=True, help="Idempotent producer.")

    def __post_init__(self) -> None:
        checks = {
            "kafka-topic is required when kafka-brokers is set.": self.brokers and not self.topic,
            "kafka-brokers must be host:port.": "nowhere" in self.brokers,
            "kafka-user requires kafka-password.": self.user and not self.password,
            "kafka-password must not be unread.": self.password == Secret("unread"),
        }
        problems = [text for text, is_wrong in checks.items() if is_wrong]
        if problems:
            raise SettingsError(*problems)


@dataclass(frozen=True, kw_only=True)
class Root:
    """All."""

    config: Path | None = option(None, "File.")
    port: int = option(8000, "Port.", override_env="PORT")
    debug: bool = option(default=False, help="Debug.", only_true_is_on=True)
    proxy: str | None = option(None, "Proxy.", fallback_env="HTTP_PROXY")
    kafka: Kafka = group(Kafka, "kafka")

    def __post_init__(self) -> None:
        if self.kafka.brokers and self.debug:
            raise SettingsError("kafka-brokers must not be given together with debug.")


@dataclass(frozen=True, kw_only=True)
class Convert:
    """A command with arguments."""

    out: Path = option(REQUIRED, "Folder to write to.")
    target: str = argument(REQUIRED, "What to make.")
    files: tuple[str, ...] = argument((), "Files to read.")


def problems_of(words: list[str], environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(Root, words, environ)
    return list(caught.value.problems)


def load(*words: str, **environ: str) -> Root:
    return load_settings(Root, words, environ).settings


def test_nothing_given_leaves_the_defaults() -> None:
    assert load() == Root()


def test_flag_beats_variable_beats_file_beats_default(tmp_path: Path) -> None:
    config = tmp_path / "machine.toml"
    config.write_text('port = 1\n[kafka]\ntopic = "file"\nacks = 0\n')
    loaded = load_settings(
        Root,
        ["--port", "3", "--config", str(config)],
        {"TM_PORT": "2", "TM_KAFKA_TOPIC": "variable"},
    )
    assert loaded.settings == Root(config=config, port=3, kafka=Kafka(topic="variable", acks=0))
    assert loaded.origins["port"] == "--port"
    assert loaded.origins["kafka-topic"] == "TM_KAFKA_TOPIC"
    assert loaded.origins["kafka-acks"] == f"{config} kafka.acks"
    assert loaded.origins["kafka-ssl"] == "default"


def test_override_variable_beats_the_command_line() -> None:
    assert load("--port", "3", PORT="4", TM_PORT="5").port == 4


def test_fallback_variable_counts_only_without_ours() -> None:
    assert load(HTTP_PROXY="wide").proxy == "wide"
    assert load(HTTP_PROXY="wide", TM_PROXY="ours").proxy == "ours"


def test_config_file_can_come_from_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "machine.toml"
    config.write_text("port = 9\n")
    assert load(TM_CONFIG=str(config)).port == 9


@pytest.mark.parametrize("words", [["--port=7"], ["--port", "7"], ["--port=6", "--port", "7"]])
def test_flag_takes_its_value_in_both_forms_and_the_last_wins(words: list[str]) -> None:
    assert load(*words).port == 7


def test_value_may_be_a_negative_number_or_anything_after_an_equals_sign() -> None:
    assert load("--kafka-acks", "-1").kafka.acks == -1
    assert load("--kafka-topic=--odd").kafka.topic == "--odd"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--prot", "1"], "Unknown option '--prot'. Did you mean '--port'?"),
        (["--no-debug"], "Unknown option '--no-debug'. Did you mean '--debug'?"),
        (["-x"], "Unknown option '-x'."),
        (["--debug=false"], "Option '--debug' does not take a value."),
        (
            ["--port"],
            "Option '--port' requires a value; use '--port=…' for one that starts with a dash.",
        ),
        (
            ["--port", "--debug"],
            "Option '--port' requires a value; use '--port=…' for one that starts with a dash.",
        ),
        (["stray"], "Unexpected argument 'stray'."),
        (
            ["--kafka-acks", "2"],
            "kafka-acks must be an integer between -1 and 1. Got '2' from --kafka-acks.",
        ),
    ],
)
def test_bad_command_line_is_refused(words: list[str], problem: str) -> None:
    assert problem in problems_of(words)


def test_flag_that_is_on_by_default_takes_a_value() -> None:
    assert load("--kafka-idempotent", "false").kafka.idempotent is False


@pytest.mark.parametrize(
    ("text", "is_on"), [("true", True), ("1", False), ("TRUE", False), ("", False)]
)
def test_lenient_flag_variable_is_on_only_for_true(text: str, is_on: bool) -> None:
    assert load(TM_DEBUG=text).debug is is_on


def test_other_flag_variable_must_say_true_or_false() -> None:
    assert load(TM_KAFKA_SSL="true").kafka.ssl is True
    assert problems_of([], {"TM_KAFKA_SSL": "1"}) == [
        "kafka-ssl must be true or false. Got '1' from TM_KAFKA_SSL."
    ]


def test_unknown_variable_of_a_known_prefix_is_refused() -> None:
    assert problems_of([], {"TM_KAFKA_TOPICS": "x"}) == [
        "Unknown variable TM_KAFKA_TOPICS. Did you mean 'TM_KAFKA_TOPIC'?"
    ]


def test_mistyped_variable_without_prefix_is_refused_but_a_foreign_one_is_not() -> None:
    assert problems_of([], {"TM_CONFG": "x"}) == [
        "Unknown variable TM_CONFG. Did you mean 'TM_CONFIG'?"
    ]
    assert load(TM_TEST_REDIS="x", TM_HOME_THEATRE="y") == Root()


def test_unknown_key_of_a_file_is_refused_with_file_and_nearest(tmp_path: Path) -> None:
    config = tmp_path / "machine.toml"
    config.write_text("[kafka]\ntopik = 'x'\n")
    assert problems_of(["--config", str(config)]) == [
        f"{config}: unknown key 'kafka.topik'. Did you mean 'kafka.topic'?"
    ]


def test_key_of_another_command_is_ignored(tmp_path: Path) -> None:
    config = tmp_path / "machine.toml"
    config.write_text("out = 'x'\nport = 5\n")
    known = KnownNames(lambda: [Root, Convert])
    loaded = load_settings(Root, ["--config", str(config)], {"TM_OUT": "y"}, known)
    assert loaded.settings.port == 5


@pytest.mark.parametrize("text", ["port = ", "\xff"])
def test_unreadable_file_is_a_problem_not_a_crash(tmp_path: Path, text: str) -> None:
    config = tmp_path / "machine.toml"
    config.write_bytes(text.encode("latin-1"))
    assert problems_of(["--config", str(config)])[0].startswith(f"{config} cannot be read")
    assert "cannot be read" in problems_of(["--config", str(tmp_path / "absent")])[0]


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    config = tmp_path / "machine.toml"
    config.write_text("[kafka]\nacks = 7\n")
    problems = problems_of(
        ["--config", str(config), "--prot", "1", "--port", "many"], {"TM_KAFKA_SSL": "maybe"}
    )
    assert len(problems) == 4
    assert all(
        any(word in problem for problem in problems) for word in ("--prot", "many", "acks", "maybe")
    )


def test_checks_across_fields_are_reported() -> None:
    assert problems_of(["--kafka-brokers", "a:1"]) == [
        "kafka-topic is required when kafka-brokers is set."
    ]


def test_unreadable_value_does_not_hide_the_other_mistakes_of_its_class() -> None:
    problems = problems_of(["--kafka-brokers", "a:1", "--kafka-acks", "9"])
    assert problems == [
        "kafka-acks must be an integer between -1 and 1. Got '9' from --kafka-acks.",
        "kafka-topic is required when kafka-brokers is set.",
    ]


def test_value_that_was_given_but_not_read_counts_as_given() -> None:
    problems = problems_of(["--kafka-brokers", "[", "--kafka-password-file", "absent"])
    assert len(problems) == 3
    assert problems[2] == "kafka-topic is required when kafka-brokers is set."


def test_checks_say_nothing_about_an_option_that_was_not_read() -> None:
    problems = problems_of(["--kafka-user", "u", "--kafka-password-file", "absent"])
    assert len(problems) == 1
    assert "cannot be read" in problems[0]


def test_unread_option_whose_name_is_a_common_word_hides_nothing_of_other_classes() -> None:
    problems = problems_of(["--port", "many", "--kafka-brokers", "nowhere", "--kafka-topic", "t"])
    assert problems == [
        "port must be an integer. Got 'many' from --port.",
        "kafka-brokers must be host:port.",
    ]


def test_mistake_in_a_class_does_not_hide_those_of_the_class_around_it() -> None:
    assert problems_of(["--kafka-brokers", "a:1", "--port", "80", "--debug"]) == [
        "kafka-topic is required when kafka-brokers is set.",
        "kafka-brokers must not be given together with debug.",
    ]


def test_secret_comes_from_a_file_without_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("hunter2\n")
    assert load("--kafka-password-file", str(path)).kafka.password == Secret("hunter2")
    assert load(TM_KAFKA_PASSWORD_FILE=str(path)).kafka.password == Secret("hunter2")


def test_secret_as_text_and_as_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("a")
    assert problems_of(["--kafka-password", "b", "--kafka-password-file", str(path)]) == [
        "Give --kafka-password or --kafka-password-file, not both."
    ]


def test_missing_secret_file_is_reported_under_its_option() -> None:
    assert problems_of(["--kafka-password-file", "absent.txt"]) == [
        "--kafka-password-file: the file that it names cannot be read: No such file or directory."
    ]


def test_secret_shows_nowhere() -> None:
    loaded = load_settings(Root, ["--kafka-password", "hunter2"])
    shown = [
        repr(loaded),
        str(loaded.settings),
        f"{loaded.settings.kafka.password}",
        str(loaded.rows()),
    ]
    assert not any("hunter2" in text for text in shown)
    with pytest.raises(TypeError):
        json.dumps(loaded.settings.kafka.password)


def test_rows_tell_value_and_origin() -> None:
    loaded: Loaded[Root] = load_settings(Root, ["--port", "5", "--kafka-password", "x"])
    assert ("port", "5", "--port") in loaded.rows()
    assert ("kafka-password", "***", "--kafka-password") in loaded.rows()
    assert ("kafka-topic", "", "default") in loaded.rows()


def test_required_option_and_argument_are_asked_for_with_their_meaning() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(Convert, [])
    assert caught.value.problems == (
        "--out is required: Folder to write to.",
        "<target> is required: What to make.",
    )


def test_arguments_are_taken_in_order_and_the_last_takes_the_rest() -> None:
    settings = load_settings(Convert, ["a", "--out", "dir", "b", "--", "-c"]).settings
    assert settings == Convert(out=Path("dir"), target="a", files=("b", "-c"))


def test_python_caller_gives_nested_keys_in_any_case() -> None:
    settings = settings_from(Root, {"port": 7, "kafka": {"topic": "x"}}).settings
    assert settings == Root(port=7, kafka=Kafka(topic="x"))


def test_python_caller_gets_the_nearest_key_too() -> None:
    with pytest.raises(SettingsError, match=r"unknown key 'prot'\. Did you mean 'port'\?"):
        settings_from(Root, {"prot": 7})
