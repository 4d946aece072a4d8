"""Commands whose extra is not installed, and lakes that do not exist."""

import subprocess
import sys
from pathlib import Path

import pytest

from tardis_machine.cli.commands import COMMANDS, Command
from tardis_machine.cli.dispatch import main

WITHOUT = (
    "import sys; sys.modules.update(dict.fromkeys({modules!r})); "
    "from tardis_machine.cli.dispatch import main; sys.exit(main({words!r}, {{}}))"
)
NEEDY = [command for command in COMMANDS if command.needs]
REQUIRED = {"lake query": ["select 1"], "lake rebuild": ["--from", "2024", "--to", "2025"]}


@pytest.mark.parametrize("command", NEEDY, ids=lambda command: command.name)
def test_command_without_its_extra_prints_the_install_line(
    command: Command, tmp_path: Path
) -> None:
    words = [*command.name.split(), *REQUIRED.get(command.name, [])]
    code = WITHOUT.format(modules=command.needs, words=words)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert "pip install 'tardis-machine[lake]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["tables", "check"])
def test_lake_that_does_not_exist_is_an_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lake", command, "--lake", str(tmp_path / "nowhere")], {}) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"There is no lake at {tmp_path / 'nowhere'}" in captured.err


def test_type_that_asks_for_nothing_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["normalize", "--exchange", "bitmex", "--data-types", "trade_bar_0s"]
    assert main([*words, str(tmp_path)], {}) == 2
    assert "Data type 'trade_bar_0s' asks for nothing" in capsys.readouterr().err
