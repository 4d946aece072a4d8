"""Data type names: `book_snapshot_5_100ms` and the like, as typed specs and back."""

import math
from collections.abc import Collection, Iterable
from typing import TypeAlias

import msgspec

from tardis_machine.model.errors import RequestError, UnknownNameError
from tardis_machine.model.numbers import number_text, to_number, whole
from tardis_machine.model.records import BarKind
from tardis_machine.model.texts import shortened

PLAIN_TYPES = (
    "trade",
    "book_change",
    "derivative_ticker",
    "liquidation",
    "option_summary",
    "book_ticker",
)
"""Types that come from mappers, in the order in which mappers see a message."""

COMPUTED_PATTERNS = (
    "trade_bar_<n>ticks|ms|s|m|vol",
    "book_snapshot_<depth>_<n>ms|s|m",
    "book_snapshot_<depth>_grouped<step>_<n>ms|s|m",
    "quote",
    "quote_<n>ms|s|m",
)

MAX_DEPTH = 10_000
"""Deepest snapshot. Levels a book lacks are written too, so every record takes this much space."""
_ANY_DEPTH = f"an integer up to {MAX_DEPTH}"

MAX_NUMBER = 2**53
"""Largest interval and grouping: beyond it, integers are not exact in all readers of JSON."""

_MILLISECONDS = (("ms", 1), ("s", 1000), ("m", 60_000))
_BAR_UNITS: tuple[tuple[str, BarKind, int], ...] = (
    ("ticks", "tick", 1),
    *((suffix, "time", factor) for suffix, factor in _MILLISECONDS),
    ("vol", "volume", 1),
)
_BAR_SUFFIXES: dict[BarKind, str] = {"time": "ms", "tick": "ticks", "volume": "vol"}


class TradeBarSpec(msgspec.Struct, frozen=True):
    """A requested trade bar: how trades are grouped, and under which name."""

    kind: BarKind
    interval: int | float
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            default = f"trade_bar_{number_text(self.interval)}{_BAR_SUFFIXES[self.kind]}"
            msgspec.structs.force_setattr(self, "name", default)
        _check_interval(self)


class BookSnapshotSpec(msgspec.Struct, frozen=True):
    """A requested book snapshot: depth, interval in milliseconds (0: every change), grouping."""

    depth: int
    interval: int | float
    grouping: int | float | None = None
    name: str = ""
    removes_crossed_levels: bool = True

    def __post_init__(self) -> None:
        if not self.name:
            grouped = "" if self.grouping is None else f"_grouped{number_text(self.grouping)}"
            default = f"book_snapshot_{self.depth}{grouped}_{number_text(self.interval)}ms"
            msgspec.structs.force_setattr(self, "name", default)
        _check_interval(self)
        if not 0 <= self.depth <= MAX_DEPTH:
            raise _out_of_bounds("depth", self.depth, self.name, _ANY_DEPTH)
        if self.grouping is not None and not 0 < self.grouping <= MAX_NUMBER:
            expected = f"a step above 0, up to {MAX_NUMBER}"
            raise _out_of_bounds("grouping", self.grouping, self.name, expected)


ComputedSpec: TypeAlias = TradeBarSpec | BookSnapshotSpec


def source_types(data_types: Iterable[str]) -> tuple[str, ...]:
    """Return the plain types that must be mapped to serve these names, in mapper order."""
    needed = set()
    for name in data_types:
        if name in PLAIN_TYPES:
            needed.add(name)
        elif name.startswith("trade_bar_"):
            needed.add("trade")
        elif name.startswith(("book_snapshot_", "quote")):
            needed.add("book_change")
    return tuple(name for name in PLAIN_TYPES if name in needed)


def output_type(name: str) -> str:
    """Return the record type that a requested name lets through to the client."""
    if name.startswith("trade_bar_"):
        return "trade_bar"
    if name.startswith(("book_snapshot_", "quote")):
        return "book_snapshot"
    return name


def computed_specs(data_types: Iterable[str]) -> list[ComputedSpec]:
    """Return the computed types among these names, in their order; names of others are ignored."""
    return [spec for name in data_types if (spec := parse_computed(name)) is not None]


def parse_computed(name: str) -> ComputedSpec | None:
    """Parse one computed data type name; None when it does not start like one."""
    if name.startswith("trade_bar"):
        return _parse_trade_bar(name)
    if name.startswith("book_snapshot"):
        return _parse_book_snapshot(name)
    if name.startswith("quote"):
        return _parse_quote(name)
    return None


def check_data_types(data_types: Collection[str]) -> None:
    """Refuse unknown and empty types; for the command line, files and the Python API."""
    for name in data_types:
        if name not in PLAIN_TYPES and name != "disconnect" and parse_computed(name) is None:
            raise UnknownNameError("data type", name, (*PLAIN_TYPES, *COMPUTED_PATTERNS))
    if empty := empty_types(data_types):
        raise RequestError(
            f"Data type {shortened(empty[0])!r} asks for nothing. "
            "Please provide an interval of bars, and a depth of snapshots, above 0."
        )


def empty_types(data_types: Iterable[str]) -> list[str]:
    """Return the names that ask for nothing: bars of no length and snapshots of no depth."""
    return [name for name in data_types if _is_empty(parse_computed(name))]


def _is_empty(spec: ComputedSpec | None) -> bool:
    if isinstance(spec, TradeBarSpec):
        return spec.interval == 0
    return spec is not None and spec.depth == 0


def _parse_trade_bar(name: str) -> TradeBarSpec:
    text = name.removeprefix("trade_bar_")
    for suffix, kind, factor in _BAR_UNITS:
        if text.endswith(suffix) and text != name:
            number = _number(_cut(text, suffix), "interval", name)
            return TradeBarSpec(kind, whole(number * factor), name)
    raise _invalid(name)


def _parse_book_snapshot(name: str) -> BookSnapshotSpec:
    parts = name.split("_")
    if len(parts) not in (4, 5):
        raise _invalid(name)
    depth = whole(_number(parts[2], "depth", name))
    if not isinstance(depth, int):
        raise _out_of_bounds("depth", depth, name, _ANY_DEPTH)
    grouping = None
    if len(parts) == 5:
        grouping = whole(_number(parts[3].replace("grouped", ""), "interval", name))
    interval = _milliseconds(parts[-1], name)
    return BookSnapshotSpec(depth, interval, grouping, name)


def _parse_quote(name: str) -> BookSnapshotSpec:
    interval = 0 if name == "quote" else _milliseconds(name.removeprefix("quote_"), name)
    return BookSnapshotSpec(1, interval, None, name)


def _milliseconds(text: str, name: str) -> int | float:
    """Parse `100ms`, `1s` or `5m`."""
    for suffix, factor in _MILLISECONDS:
        if text.endswith(suffix):
            return whole(_number(_cut(text, suffix), "interval", name) * factor)
    raise _invalid(name)


def _cut(text: str, suffix: str) -> str:
    """Drop the unit. The reference drops its first occurrence, which error texts show."""
    return text.replace(suffix, "", 1)


def _number(text: str, what: str, name: str) -> float:
    number = to_number(text)
    if math.isnan(number):
        raise RequestError(f"invalid {what}: {shortened(text)}, data type: {shortened(name)}")
    return number


def _check_interval(spec: ComputedSpec) -> None:
    if not 0 <= spec.interval <= MAX_NUMBER:
        expected = f"a number from 0 to {MAX_NUMBER}"
        raise _out_of_bounds("interval", spec.interval, spec.name, expected)


def _out_of_bounds(what: str, value: float, name: str, expected: str) -> RequestError:
    return RequestError(
        f"invalid {what}: {shortened(str(value))}, data type: {shortened(name)}. "
        f"Please provide {expected}."
    )


def _invalid(name: str) -> RequestError:
    return RequestError(f"invalid data type: {shortened(name)}")
