"""Payload cases: the kinds of envelope, declared once.

Field names of the envelope, names in settings, headers and documents all come from here.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from msgspec import UNSET

from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.errors import SettingsError, nearest_hint
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import (
    BookChange,
    BookSnapshot,
    BookTicker,
    DerivativeTicker,
    Liquidation,
    OptionSummary,
    Record,
    Trade,
    TradeBar,
)


class PayloadCase(StrEnum):
    """One member of the envelope's payload, named like its field."""

    TRADE = "trade"
    BOOK_CHANGE = "book_change"
    BOOK_SNAPSHOT = "book_snapshot"
    GROUPED_BOOK_SNAPSHOT = "grouped_book_snapshot"
    QUOTE = "quote"
    BOOK_TICKER = "book_ticker"
    DERIVATIVE_TICKER = "derivative_ticker"
    LIQUIDATION = "liquidation"
    OPTION_SUMMARY = "option_summary"
    TRADE_BAR = "trade_bar"
    ERROR = "error"
    DISCONNECT = "disconnect"

    @property
    def record_type(self) -> type[Record]:
        """Return the class of the records it holds."""
        return _RECORD_TYPES.get(self, BookSnapshot)

    @property
    def camel(self) -> str:
        """Return the name as settings, keys and headers show it: `bookChange`."""
        first, *others = self.value.split("_")
        return first + "".join(word.capitalize() for word in others)

    @property
    def is_computed(self) -> bool:
        """Say whether its records carry the requested data type as their name."""
        return "name" in self.record_type.__struct_fields__

    @property
    def has_symbol(self) -> bool:
        """Say whether its records belong to an instrument."""
        return "symbol" in self.record_type.__struct_fields__

    def data_type(self, name: str = "") -> str:
        """Return the data type that gives its records: their name, or for plain ones their type."""
        return name or str(self.record_type.__struct_config__.tag)


class NewerCase(NamedTuple):
    """A payload that only a newer version knows, under the names that version gave it."""

    camel: str
    type_name: str

    @property
    def value(self) -> str:
        """Return the name for counts."""
        return self.camel

    def data_type(self, _name: str = "") -> str:
        """Return the data type that gives its records."""
        return self.type_name


AnyCase: TypeAlias = PayloadCase | NewerCase


_RECORD_TYPES: dict[PayloadCase, type[Record]] = {
    PayloadCase(str(record_type.__struct_config__.tag)): record_type
    for record_type in (
        Trade,
        BookChange,
        BookSnapshot,
        BookTicker,
        DerivativeTicker,
        Liquidation,
        OptionSummary,
        TradeBar,
        FeedError,
        Disconnect,
    )
}
"""Records by their type name; the cases without an entry hold snapshots too."""


def snapshot_case(name: str, *, is_grouped: bool) -> PayloadCase:
    """Return the case of a computed snapshot with this name."""
    if name.startswith("quote"):
        return PayloadCase.QUOTE
    return PayloadCase.GROUPED_BOOK_SNAPSHOT if is_grouped else PayloadCase.BOOK_SNAPSHOT


def case_of(record: NormalizedRecord) -> PayloadCase:
    """Return the payload case that holds a record."""
    if isinstance(record, BookSnapshot):
        return snapshot_case(record.name, is_grouped=record.grouping is not UNSET)
    # Every other type has one case, which is named like it.
    return PayloadCase(record.type)


def find_case(name: str) -> PayloadCase | None:
    """Return the payload case with this name in any spelling, or None.

    Case, `_`, `-` and blanks do not matter: `book_change`, `bookChange` and `BOOK-CHANGE` are one.
    """
    folded = _folded(name)
    return next((case for case in PayloadCase if _folded(case.value) == folded), None)


def parse_cases(names: Iterable[str], option: str) -> frozenset[PayloadCase]:
    """Read payload case names; SettingsError with all unknown ones, for the setting `option`."""
    found = {name: find_case(name) for name in names}
    unknown = [name for name, case in found.items() if case is None]
    if unknown:
        raise SettingsError(unknown_cases_text(unknown, option))
    return frozenset(case for case in found.values() if case is not None)


def unknown_cases_text(unknown: Collection[str], option: str) -> str:
    """Say which names are no payload case, which are, and which ones were probably meant."""
    valid = [case.camel for case in PayloadCase]
    hints = "".join(dict.fromkeys(nearest_hint(name, valid) for name in unknown))
    return (
        f"Unknown payload case(s) for {option}: {', '.join(unknown)}.{hints} "
        f"Known cases: {', '.join(valid)}."
    )


def _folded(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")
