"""The scripts behind the Makefile that decide whether a change passes."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.__main__ import with_section
from benchmarks.replay import Feed, Measured, Run, row
from tardis_machine.app.settings.options import options_of
from tardis_machine.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "text",
    # Put together here, because this file is tracked too.
    [
        "cache in /" + "root/.cache",
        "open('/" + "tmp/x')",
        "see /" + "work/main",
        "index https://" + "py" + "pi.org/simple",
        "https://files.python" + "hosted.org/packages",
        "https://registry." + "npmjs.org/x",
        "https://repo1." + "maven.org/maven2",
    ],
)
def test_machine_path_or_registry_host_is_found(text: str, tmp_path: Path) -> None:
    tracked = load("tracked")
    tracked.ROOT = tmp_path
    path = tmp_path / "file.md"
    path.write_text(f"fine\n{text}\n")
    (problem,) = tracked.problems_of(path)
    assert problem.startswith("file.md:2: ")


@pytest.mark.parametrize(
    "text",
    [
        "a/" + "work/b",
        "<system temp dir>/.tardis-cache",
        "https://api.tardis.dev/v1",
        "./tmp/x",
        "net/home",
    ],
)
def test_harmless_text_is_not_found(text: str, tmp_path: Path) -> None:
    tracked = load("tracked")
    tracked.ROOT = tmp_path
    path = tmp_path / "file.md"
    path.write_text(text)
    assert tracked.problems_of(path) == []


def test_documents_from_declarations_are_fresh() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "docs.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_benchmark_section_is_replaced_and_a_new_one_is_added() -> None:
    once = with_section("# Title\n", "bronze", "first")
    twice = with_section(once, "bronze", "second")
    assert "## Bronze" in once
    assert "first" not in twice
    assert "second" in twice
    assert with_section(twice, "replay", "third").count("<!-- end -->") == 2


def test_every_name_of_every_option_stands_in_the_documents() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    # A flag may be followed by what its value is.
    documented = {name.split()[0] for name in re.findall(r"`([^`]+)`", text)}
    for command in COMMANDS:
        for option in options_of(command.settings):
            names = {*option.flags, *option.variables, *option.keys}
            # What one bus may have for itself is the same for every bus, and described once.
            if not option.declared.overrides:
                assert names <= documented, f"run make docs: {names - documented}"


@pytest.mark.parametrize(
    "name",
    [
        "--nats-pass",
        "--event-hubs-static-properties",
        "--kinesis-access-key",
        "TM_KINESIS_SECRET_KEY",
        "event_hubs.hub",
    ],
)
def test_alias_of_a_bus_option_stands_in_the_documents(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "settings.md").read_text()


def measured(*runs: tuple[float, float]) -> Measured:
    """Make the runs of a server from their costs and the CPU that others took meanwhile."""
    return Measured(tuple(Run(cost, 2.0, 10.0, others) for cost, others in runs), 50.0)


def test_comparison_shows_medians_and_how_many_runs_were_disturbed() -> None:
    feed = Feed("bitmex", 1, 1_000_000, 2.0)
    ours = measured((4.0, 0.0), (9.0, 0.9), (5.0, 0.1))
    other = measured((12.0, 0.0), (90.0, 1.2), (10.0, 0.0))
    assert row("HTTP", 2.6, feed, ours, other) == (
        "| HTTP | 5.00 | 2.50 | 2.6 | 100,000 | 50 | 2 of 6 | 12.00 | 3.00 |"
    )
    assert row("HTTP", None, feed, ours).endswith("| 2.50 |  | 100,000 | 50 | 1 of 3 |  |  |")


def remember_failures(folder: Path, names: list[str]) -> None:
    cache = folder / ".pytest_cache" / "v" / "cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(json.dumps(dict.fromkeys(names, True)))


def test_few_failed_tests_are_named_for_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    remember_failures(tmp_path, ["tests/b.py::two", "tests/a.py::one"])
    load("failed_tests").main(["--most", "2"])
    assert capsys.readouterr().out == "tests/a.py::one\ntests/b.py::two\n"


def test_many_failed_tests_are_no_accident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    remember_failures(tmp_path, ["a", "b", "c"])
    with pytest.raises(SystemExit, match="3 tests failed; at most 2"):
        load("failed_tests").main(["--most", "2"])


def test_run_that_ended_early_has_no_failed_test_to_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="did not come to an end"):
        load("failed_tests").main([])
