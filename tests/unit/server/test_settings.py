"""The HTTP port, as existing set-ups write it."""

import pytest

from tardis_machine.server.settings import parse_port


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("8000", 8000),
        (" 80 ", 80),
        ("1e3", 1000),
        ("0x1F40", 8000),
        ("65534", 65534),
        ("8e3", 8000),
    ],
)
def test_port_is_read_as_a_number(text: str, port: int) -> None:
    assert parse_port(text) == port


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "0"),
        ("0", "0"),
        ("-1", "-1"),
        ("65535", "65535"),
        ("80.5", "80.5"),
        ("web", "NaN"),
        ("Infinity", "Infinity"),
        ("-1e999", "-Infinity"),
        ("true", "NaN"),
    ],
)
def test_bad_port_is_shown_as_the_number_it_converts_to(text: str, shown: str) -> None:
    with pytest.raises(ValueError, match=rf"^Invalid HTTP port: {shown}\. "):
        parse_port(text)
