"""Numbers as the normalized contract reads and writes them: IEEE doubles, ECMAScript text."""

import math
import re
from typing import Any

_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PREFIXED = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_NAMED = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
# What ECMAScript strips around a number besides ASCII blanks.
_BLANKS = " \t\n\v\f\r\u00a0\ufeff\u2028\u2029"


def number_text(value: float) -> str:
    """Write a double as ECMAScript does: shortest digits, plain from 1e-6 up to 1e21."""
    value = float(value)
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    return sign + _place_point(digits, point)


def _place_point(digits: str, point: int) -> str:
    """Write `0.<digits> × 10^point` in the form ECMAScript chooses."""
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}e{point - 1:+d}"


def to_number(value: Any) -> float:
    """Convert text, a number, a bool or None as ECMAScript's `Number()`; NaN when it is none."""
    if value is None:
        return 0.0
    if not isinstance(value, str):
        return float(value)
    text = value.strip(_BLANKS)
    if not text:
        return 0.0
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _PREFIXED.fullmatch(text):
        return float(int(text, 0))
    return _NAMED.get(text, math.nan)


def optional_number(value: Any) -> float | None:
    """Convert as `to_number`; None for missing, empty and non-finite values."""
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except ValueError:
        number = to_number(value)
    else:
        # Python reads digits of all scripts and 1_000, too; looking for those is cheaper than a
        # pattern for what is left.
        if isinstance(value, str) and ("_" in value or not value.isascii()):
            number = to_number(value)
    return number if math.isfinite(number) else None


def nonzero_number(value: Any) -> float | None:
    """Convert as `optional_number`; None for zero too, which some venues send for "no value"."""
    return optional_number(value) or None


def whole(value: float) -> int | float:
    """Return an int when the value is integral, so that JSON shows no fraction."""
    return int(value) if math.isfinite(value) and value == int(value) else value
