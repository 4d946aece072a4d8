from pathlib import Path

import pytest

from tardis_machine.app.settings.options import Vocabulary, options_of
from tardis_machine.app.settings.values import read_value
from tardis_machine.cli import main
from tardis_machine.cli.commands import COMMANDS, Command
from tardis_machine.cli.dispatch import find_command
from tardis_machine.model.compiled import describe
from tardis_machine.model.errors import SettingsError
from tardis_machine.version import __version__

pytestmark = pytest.mark.usefixtures("restored_logging")

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("words", [["--version"], ["-v"], ["simulate", "-v"]])
def test_version_is_printed_bare(words: list[str], capsys: Captured) -> None:
    assert main(words, {}) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_version_command_also_says_what_runs(capsys: Captured) -> None:
    assert main(["version"], {}) == 0
    assert capsys.readouterr().out == f"{__version__}\nhot loops: {describe()}\n"


def test_help_names_usage_options_and_variables(capsys: Captured) -> None:
    assert main(["--help"], {}) == 0
    text = capsys.readouterr().out
    assert text.startswith("Usage: tardis-machine [options]")
    for part in (
        "--cache-dir <path>",
        "--api-key",
        "TM_",
        "TM_API_KEY",
        "TM_CACHE_DIR",
        "simulate",
    ):
        assert part in text


def test_complete_help_lists_every_flag_of_the_command_with_its_default(capsys: Captured) -> None:
    for command in COMMANDS:
        assert main([*command.name.split(), "--help-all"], {}) == 0
        words = set(capsys.readouterr().out.replace(",", " ").split())
        for option in options_of(command.settings):
            shown = [option.field] if option.declared.is_argument else option.flags
            assert words.issuperset(shown)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_has_at_most_one_screen_per_group(command: Command, capsys: Captured) -> None:
    assert main([*command.name.split(), "--help"], {}) == 0
    groups = capsys.readouterr().out.split("\n\n")
    assert max(len(group.splitlines()) for group in groups) <= 24


def test_short_help_has_the_usual_options_and_says_where_the_others_are(capsys: Captured) -> None:
    assert main(["-h"], {}) == 0
    text = capsys.readouterr().out
    assert "[8000]" in text
    assert "--kafka-brokers" in text
    assert "--kafka-statistics-interval-ms" not in text
    assert "--help-all prints all of them" in text
    assert len(text.splitlines()) < 200


def test_usual_options_exist() -> None:
    for command in COMMANDS:
        options = options_of(command.settings)
        for group in {option.group for option in options}:
            fields = {option.field for option in options if option.group is group}
            assert fields.issuperset(getattr(group, "usual", ()))


def test_flag_of_delivery_for_one_bus_is_refused_with_key_and_variable(capsys: Captured) -> None:
    assert main(["--kafka-retry-max-ms", "5", "--event-hubs-overflow=block"], {}) == 2
    assert capsys.readouterr().err.splitlines() == [
        "'--kafka-retry-max-ms' is not a flag: set kafka.retry_max_ms in the TOML file (--config) "
        "or the variable TM_KAFKA_RETRY_MAX_MS. '--event-bus-retry-max-ms' applies to all buses.",
        "'--event-hubs-overflow' is not a flag: set event_hubs.overflow in the TOML file "
        "(--config) or the variable TM_EVENT_HUBS_OVERFLOW. '--event-bus-overflow' applies to all "
        "buses.",
    ]


def test_no_delivery_option_of_one_bus_is_a_flag() -> None:
    for command in COMMANDS:
        flags = Vocabulary(options_of(command.settings)).flags
        assert not [name for name, found in flags.items() if found.option.declared.overrides]


def test_help_beats_version(capsys: Captured) -> None:
    assert main(["--version", "--help"], {}) == 0
    assert capsys.readouterr().out.startswith("Usage:")


def test_unknown_option_is_an_error_even_beside_help(capsys: Captured) -> None:
    assert main(["--help", "--prot"], {}) == 2
    captured = capsys.readouterr()
    assert captured.err == "Unknown option '--prot'. Did you mean '--port'?\n"
    assert captured.out == ""


def test_unknown_command_is_refused_with_the_nearest(capsys: Captured) -> None:
    assert main(["simulat"], {}) == 2
    assert capsys.readouterr().err.startswith("Unknown command 'simulat'. Did you mean 'simulate'?")


def test_flags_alone_mean_the_server() -> None:
    command, rest = find_command(["--port", "1"])
    assert (command.name, rest) == ("serve", ["--port", "1"])
    assert find_command([])[0].name == "serve"
    assert find_command(["serve", "--port", "1"]) == (command, ["--port", "1"])


def test_problems_of_every_kind_come_together_with_exit_code_2(capsys: Captured) -> None:
    code = main(["simulate", "--minutes", "none", "--sed", "1"], {"TM_SIMULATE_SEEDS": "1"})
    lines = capsys.readouterr().err.splitlines()
    assert code == 2
    assert lines[:2] == [
        "Unknown option '--sed'. Did you mean '--seed'?",
        "Unknown variable TM_SIMULATE_SEEDS. Did you mean 'TM_SIMULATE_SEED'?",
    ]
    assert lines[2].startswith("minutes must be an integer")
    assert lines[2].endswith("Got 'none' from --minutes.")


def test_unknown_name_in_a_value_is_a_usage_error(tmp_path: Path, capsys: Captured) -> None:
    words = ["simulate", "--out", str(tmp_path), "--exchanges", "bitmax"]
    assert main(words, {}) == 2
    assert "Did you mean 'bitmex'?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_simulate_writes_slices_and_says_how_to_use_them(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "cache"
    words = [
        "simulate",
        "--out",
        str(out),
        "--minutes",
        "1",
        "--exchanges",
        "bitmex",
        "--rate",
        "1",
    ]
    assert main(words, {}) == 0
    printed = capsys.readouterr().out
    assert f"--cache-dir {out}" in printed
    assert any(path.is_file() for path in out.rglob("*"))


def test_two_commands_never_give_one_variable_two_meanings() -> None:
    meanings: dict[str, object] = {}
    for command in COMMANDS:
        for variable, spelling in Vocabulary(options_of(command.settings)).variables.items():
            assert (
                meanings.setdefault(variable, spelling.option.declared) == spelling.option.declared
            )


def test_every_default_passes_its_own_check() -> None:
    for command in COMMANDS:
        for option in options_of(command.settings):
            if option.default is not None and not option.is_required and option.default != {}:
                raw = list(option.default) if option.is_list else option.default
                assert read_value(option, raw) == option.default


def test_every_command_can_be_imported() -> None:
    for command in COMMANDS:
        assert callable(command.run)


def test_two_word_command_is_found_before_its_first_word() -> None:
    with pytest.raises(SettingsError, match="Unknown command 'lakes'"):
        find_command(["lakes", "query"])


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_is_found_by_its_name(name: str) -> None:
    command, rest = find_command([*name.split(), "--debug"])
    assert isinstance(command, Command)
    assert (command.name, rest) == (name, ["--debug"])


def test_options_for_slices_are_refused_when_exchanges_are_served(capsys: Captured) -> None:
    code = main(["simulate", "--serve", "9100", "--with-gaps", "--crossed"], {})
    assert code == 2
    error = capsys.readouterr().err
    assert "with-gaps changes slices" in error
    assert "crossed changes slices" in error
