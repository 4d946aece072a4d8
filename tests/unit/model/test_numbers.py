import math

import pytest

from tardis_machine.model.numbers import (
    nonzero_number,
    number_text,
    optional_number,
    to_number,
    whole,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (100.0, "100"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (123e-20, "1.23e-18"),
        (1.5e300, "1.5e+300"),
        (-2.5, "-2.5"),
        (-1e-7, "-1e-7"),
        (123456789.125, "123456789.125"),
        (1e16, "10000000000000000"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (math.nan, "null"),
        (-math.inf, "null"),
        (7, "7"),
    ],
)
def test_number_is_written_as_ecmascript_does(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        ("1.5", 1.5),
        (" 1.5\n", 1.5),
        ("+1", 1.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("0x1F", 31.0),
        ("0b11", 3.0),
        ("0o17", 15.0),
        ("", 0.0),
        ("  ", 0.0),
        ("Infinity", math.inf),
        (None, 0.0),
        (True, 1.0),
        (7, 7.0),
    ],
)
def test_text_is_read_as_ecmascript_does(raw: object, number: float) -> None:
    assert to_number(raw) == number


@pytest.mark.parametrize(
    "raw", ["1,5", "1_000", "abc", "inf", "nan", "1e", "0x", "-0x1", "1 2", "٣"]
)
def test_text_that_is_no_number_gives_nan(raw: str) -> None:
    assert math.isnan(to_number(raw))


@pytest.mark.parametrize("raw", [None, "", "abc", "Infinity", math.nan, "inf", "1_0", "٣"])
def test_optional_number_is_none_without_a_finite_value(raw: object) -> None:
    assert optional_number(raw) is None


def test_optional_number_keeps_zero_and_nonzero_number_does_not() -> None:
    assert optional_number("0") == 0.0
    assert [optional_number(text) for text in ("-1.5e3", " 2", "0x1F", "  ")] == [-1500, 2, 31, 0]
    assert nonzero_number("0") is None
    assert nonzero_number("0.5") == 0.5


def test_whole_makes_ints_of_integral_values_only() -> None:
    assert isinstance(whole(5.0), int)
    assert whole(1.5) == 1.5
    assert math.isinf(whole(math.inf))
