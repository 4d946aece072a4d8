"""Optional numbers as venues send them: JSON numbers, text, null, or nothing."""

from typing import TypeAlias

from msgspec import UNSET

from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import OptionalNumber

LooseNumber: TypeAlias = float | str | None
"""The type of such a field; empty and non-finite text counts as no value."""


def optional(value: LooseNumber) -> OptionalNumber:
    """Return the number, zero included, or UNSET when there is none."""
    if isinstance(value, str):
        value = optional_number(value)
    return UNSET if value is None else value


def nonzero(value: LooseNumber) -> OptionalNumber:
    """Return the number, or UNSET: some venues send zero for "no value"."""
    if isinstance(value, str):
        value = optional_number(value)
    return value or UNSET
