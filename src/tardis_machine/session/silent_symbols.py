"""Symbols that were asked for and never came: often a typing error."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tardis_machine.model.control import Disconnect
from tardis_machine.model.records import Record
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

MAX_SHOWN = 20


class SilentSymbols:
    """Crosses off the symbols of an entry that occur; costs nothing once all of them did."""

    def __init__(self, exchange: str, asked: Iterable[str]) -> None:
        self._exchange = exchange
        self._silent = {symbol.upper(): symbol for symbol in asked}
        self._asked = len(self._silent)

    def note(self, records: Sequence[Record]) -> None:
        """Take notice of the records of a chunk."""
        if self._silent:
            for symbol in {each.symbol for each in records if type(each) is not Disconnect}:  # type: ignore[attr-defined]
                self._silent.pop(symbol.upper(), None)

    @property
    def is_all(self) -> bool:
        """Say whether none of the symbols came."""
        return bool(self._silent) and len(self._silent) == self._asked

    def __str__(self) -> str:
        shown = sorted(self._silent.values())[:MAX_SHOWN]
        more = f" and {len(self._silent) - MAX_SHOWN} more" if len(self._silent) > MAX_SHOWN else ""
        return f"no records of {self._exchange} {', '.join(shown)}{more} in the whole range"

    def warn(self, tell: "TellSilent | None") -> None:
        """Log which symbols never came, and tell whoever wants to know."""
        if not self._silent:
            return
        log.warning(
            "symbols without records in the whole range; compare them with the exchange's",
            exchange=self._exchange,
            count=len(self._silent),
            symbols=sorted(self._silent.values())[:MAX_SHOWN],
        )
        if tell is not None:
            tell(self)


TellSilent: TypeAlias = Callable[[SilentSymbols], object]
