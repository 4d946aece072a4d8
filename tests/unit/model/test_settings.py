import dataclasses
from dataclasses import dataclass

import pytest

from tardis_machine.model.settings import Declaration, Secret, computed_option, option


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sample."""

    routes: dict[str, str] = option({"a": "b"}, "Routes.")
    home: str = computed_option(lambda: "here", "Home.", shown_default="<home>", aliases=("base",))


def test_mutable_default_is_not_shared() -> None:
    Sample().routes["c"] = "d"
    assert Sample().routes == {"a": "b"}


def test_declaration_is_read_from_the_field() -> None:
    field = dataclasses.fields(Sample)[1]
    declared = Declaration.of(field)
    assert (declared.help, declared.shown_default, declared.aliases) == (
        "Home.",
        "<home>",
        ("base",),
    )
    assert Sample().home == "here"


def test_mistyped_detail_fails_when_the_declaration_is_read() -> None:
    field: dataclasses.Field[int] = dataclasses.field(
        default=1, metadata={"help": "x", "minium": 1}
    )
    with pytest.raises(TypeError, match="minium"):
        Declaration.of(field)


def test_secret_shows_only_when_asked() -> None:
    secret = Secret("hunter2")
    assert secret.reveal() == "hunter2"
    assert "hunter2" not in f"{secret} {secret!r} {secret!s} {[secret]}"
    assert secret == Secret("hunter2")
    assert secret != "hunter2"
    assert not Secret("")
