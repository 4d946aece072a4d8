"""Wire time text as seconds and nanoseconds, and back, with one parse per second of data.

Only text in the contract's form is taken (three or six fractional digits, UTC), because only that
is written again exactly.
"""

from collections.abc import Callable
from typing import TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from tardis_machine.model.time import SECOND_US, ms_text, parse_us, us_text

Instant: TypeAlias = tuple[int, int, int]
"""Seconds, nanoseconds, and 1 when the text has six fractional digits (0: three)."""

_CACHED_SECONDS = 8192
# Beyond this ECMAScript has no dates, so no text exists.
_MAX_SECOND = 8_640_000_000_000

# Lookups take half the time of int() and formatting, and refuse signs, blanks and underscores.
_DIGITS = tuple(f"{number:03d}" for number in range(1000))
_MILLIS = {text: number * 1_000_000 for number, text in enumerate(_DIGITS)}
_LAST_MILLIS = {f"{text}Z": nanos for text, nanos in _MILLIS.items()}
_LAST_MICROS = {f"{text}Z": number * 1000 for number, text in enumerate(_DIGITS)}


def time_reader() -> Callable[[str], Instant]:
    """Return a function that parses wire text; ValueError when it is not in the wire's form."""
    seconds: dict[str, int] = {}

    def read(text: str) -> Instant:
        try:
            second = seconds[text[:20]]
            if len(text) == 27:
                return second, _MILLIS[text[20:23]] + _LAST_MICROS[text[23:]], 1
            return second, _LAST_MILLIS[text[20:]], 0
        except KeyError:
            instant = _parse(text)
            if len(seconds) >= _CACHED_SECONDS:
                seconds.clear()
            if text[19] == ".":
                seconds[text[:20]] = instant[0]
            return instant

    return read


def _parse(text: str) -> Instant:
    """Parse a text whose second was not seen yet, and make sure it can be written again."""
    microseconds = parse_us(text)
    for digits, written in ((0, ms_text(microseconds // 1000)), (1, us_text(microseconds))):
        if written == text:
            second, rest = divmod(microseconds, SECOND_US)
            return second, rest * 1000, digits
    raise ValueError(f"not a UTC time with three or six fractional digits: {text!r}")


class _SecondTexts(dict[int, str]):
    """Seconds as `2024-03-01T00:00:00.`, written when first asked for."""

    def __missing__(self, second: int) -> str:
        if not -_MAX_SECOND <= second <= _MAX_SECOND:
            raise ValueError(f"time out of range: {second} s")
        if len(self) >= _CACHED_SECONDS:
            self.clear()
        text = self[second] = ms_text(second * 1000)[:-4]
        return text


def time_writer() -> Callable[[Timestamp, int], str]:
    """Return a function that writes a time with six fractional digits, or with three for 0.

    Numbers that are no time raise ValueError or LookupError.
    """
    texts = _SecondTexts()

    def write(timestamp: Timestamp, has_six_digits: int) -> str:
        nanos = timestamp.nanos
        if nanos < 0:
            raise ValueError(f"negative nanoseconds: {nanos}")
        second = texts[timestamp.seconds]
        if has_six_digits:
            return f"{second}{_DIGITS[nanos // 1_000_000]}{_DIGITS[nanos // 1000 % 1000]}Z"
        return f"{second}{_DIGITS[nanos // 1_000_000]}Z"

    return write
