import ast
import builtins
from pathlib import Path
from typing import NamedTuple

from tardis_machine.model import errors
from tardis_machine.model.errors import (
    SettingsError,
    SinkError,
    SinkUnavailableError,
    UnknownNameError,
    UpstreamStatusError,
    nearest_hint,
)


def test_unknown_name_tells_value_valid_ones_and_nearest() -> None:
    error = UnknownNameError("exchange", "Bitmax", ("bitmex", "okex"))
    assert str(error) == "Unknown exchange 'Bitmax'. Did you mean 'bitmex'? Valid: bitmex, okex."


def test_hint_is_empty_when_nothing_is_near() -> None:
    assert nearest_hint("zzzz", ("bitmex",)) == ""


def test_settings_error_holds_every_problem() -> None:
    error = SettingsError("one", "two")
    assert error.problems == ("one", "two")
    assert str(error) == "one\ntwo"


def test_retrying_is_a_property_of_the_type() -> None:
    assert SinkUnavailableError("down").retryable
    assert not SinkError("refused").retryable


def test_status_error_has_the_text_clients_match_on() -> None:
    error = UpstreamStatusError(401, "no key", "http://host/x")
    assert str(error) == "HttpError: status code: 401, response text: no key"


class Drawn(NamedTuple):
    """An error in the tree."""

    parent: str
    is_retryable: bool


def test_tree_shows_every_error_of_the_package() -> None:
    assert drawn_errors(errors.__doc__ or "") == defined_errors(Path(errors.__file__).parents[1])


def drawn_errors(text: str) -> dict[str, Drawn]:
    """Read the tree of a docstring."""
    drawn: dict[str, Drawn] = {}
    above = {-1: "Exception"}
    for line in text.splitlines():
        name = line.strip(" │├└─").partition(" ")[0]
        if not name.endswith("Error") or not line.startswith("    "):
            continue
        depth = (line.index(name) - 4) // 4
        above[depth] = name
        drawn[name] = Drawn(above[depth - 1], line.endswith("(retryable)"))
    return drawn


def defined_errors(package: Path) -> dict[str, Drawn]:
    """Find the classes that are exceptions, without importing what they are defined in."""
    classes = [
        node
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    found: dict[str, Drawn] = {}
    known = {name: False for name, value in vars(builtins).items() if is_exception(value)}
    while new := [each for each in classes if each.name not in found and parent_of(each, known)]:
        for each in new:
            parent = parent_of(each, known)
            known[each.name] = known[parent] or says_retryable(each)
            found[each.name] = Drawn(parent, known[each.name])
    return found


def is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def parent_of(node: ast.ClassDef, known: dict[str, bool]) -> str:
    """Return the first base that is an exception, or nothing."""
    names = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    return next((name for name in names if name in known), "")


def says_retryable(node: ast.ClassDef) -> bool:
    return any(ast.unparse(statement) == "retryable = True" for statement in node.body)
