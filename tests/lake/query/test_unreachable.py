"""Roots that cannot be reached are told in one line."""

import pytest

from tardis_machine.cli import main

ROOT = "dbfs:/x"


@pytest.mark.parametrize(
    "words", [("tables",), ("check",), ("query", "select count(*) from silver.trades")]
)
def test_store_that_cannot_be_reached_is_named(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command, *others = words
    assert main(["lake", command, "--lake", ROOT, *others]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert ROOT in line
