from pathlib import Path

import pytest

from tardis_machine.app.settings.options import Vocabulary, options_of
from tardis_machine.app.settings.values import read_value
from tardis_machine.cli import main
from tardis_machine.cli.commands import COMMANDS, Command
from tardis_machine.cli.dispatch import find_command
from tardis_machine.model.errors import SettingsError
from tardis_machine.version import __version__

pytestmark = pytest.mark.usefixtures("restored_logging")

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("words", [["--version"], ["-v"], ["version"], ["simulate", "-v"]])
def test_version_is_printed_bare(words: list[str], capsys: Captured) -> None:
    assert main(words, {}) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


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


def test_help_lists_every_option_of_the_command_with_its_default(capsys: Captured) -> None:
    for command in COMMANDS:
        assert main([*command.name.split(), "--help"], {}) == 0
        text = capsys.readouterr().out
        for option in options_of(command.settings):
            shown = option.field if option.declared.is_argument else f"--{option.name}"
            assert shown in text
    assert main(["-h"], {}) == 0
    assert "[8000]" in capsys.readouterr().out


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
