"""Optional numbers in every form that venues send."""

import pytest
from msgspec import UNSET

from tardis_machine.exchanges.numbers import LooseNumber, nonzero, optional


@pytest.mark.parametrize(
    ("value", "kept", "kept_nonzero"),
    [
        (1.5, 1.5, 1.5),
        ("1.5", 1.5, 1.5),
        (0.0, 0.0, UNSET),
        ("0.000", 0.0, UNSET),
        ("", UNSET, UNSET),
        (None, UNSET, UNSET),
        ("NaN", UNSET, UNSET),
        ("Infinity", UNSET, UNSET),
    ],
)
def test_number_or_nothing(value: LooseNumber, kept: object, kept_nonzero: object) -> None:
    assert optional(value) == kept
    assert nonzero(value) == kept_nonzero
