"""Faults that are made on purpose: their kinds, and how often each is asked for."""

import re
from dataclasses import dataclass
from enum import StrEnum

from tardis_machine.model.errors import nearest_hint


class FaultKind(StrEnum):
    """What can go wrong."""

    CLOSE = "close"
    """The connection ends, with a code, or 1006 for a cut without one."""
    STALL = "stall"
    """The connection stays open and silent: no data, no answers, no pongs."""
    GAP = "gap"
    """A book message is left out, where the venue's numbers show it."""
    GARBAGE = "garbage"
    """A frame comes that is not JSON, or half a message ahead of the whole one."""
    RATE_LIMIT = "rate-limit"
    """A request is answered with the venue's "too many requests"."""
    REFUSE = "refuse"
    """A handshake is refused."""


ARMED_KINDS = (FaultKind.RATE_LIMIT, FaultKind.REFUSE)
"""Kinds that wait for the next request or handshake; all others hit an open connection."""

VALUES = {
    FaultKind.CLOSE: (1000, 4999, "a close code"),
    FaultKind.RATE_LIMIT: (0, 3600, "the seconds of Retry-After"),
    FaultKind.REFUSE: (400, 599, "an HTTP status"),
}
"""What the number of a kind means, and where it lies; other kinds have none."""

_RULE = re.compile(
    r"(?P<kind>[a-z-]+)(?::(?P<value>\d{1,4}))?=(?P<rate>\d{0,9}(?:\.\d{1,9})?)(?P<unit>s?)"
)


@dataclass(frozen=True)
class FaultRule:
    """How often a fault happens: by chance, or every so many seconds."""

    text: str
    kind: FaultKind
    value: int | None
    chance: float | None
    every_seconds: float | None


def parse_rule(text: str) -> FaultRule:
    """Read `close=0.001`, `stall=30s` or `close:1012=10s`.

    Raises:
        ValueError: with a sentence that says what is wrong.
    """
    match = _RULE.fullmatch(text)
    if match is None or match["rate"] in ("", "."):
        raise ValueError(
            f"fault {text!r} must be a kind with a chance or a time, such as close=0.001, "
            "stall=30s or close:1012=10s."
        )
    kind = parse_kind(match["kind"])
    value = None if match["value"] is None else int(match["value"])
    check_value(kind, value)
    rate = float(match["rate"])
    if rate <= 0 or (rate > 1 and not match["unit"]):
        raise ValueError(f"fault {text!r}: a chance is above 0 and at most 1, a time above 0 s.")
    if match["unit"]:
        return FaultRule(text, kind, value, None, rate)
    return FaultRule(text, kind, value, rate, None)


def parse_kind(text: str) -> FaultKind:
    """Read the name of a kind.

    Raises:
        ValueError: with a sentence that lists the valid ones.
    """
    names = [kind.value for kind in FaultKind]
    if text not in names:
        hint = nearest_hint(text, names)
        raise ValueError(f"Unknown fault {text!r}.{hint} Valid: {', '.join(names)}.")
    return FaultKind(text)


def check_value(kind: FaultKind, value: int | None) -> None:
    """Refuse a number that a kind cannot have.

    Raises:
        ValueError: with a sentence that says what is allowed.
    """
    if value is None:
        return
    if kind not in VALUES:
        raise ValueError(f"fault {kind} takes no number, but got {value}.")
    low, high, meaning = VALUES[kind]
    if not low <= value <= high:
        raise ValueError(f"fault {kind} takes {meaning} from {low} to {high}, not {value}.")
