"""What a feed tells of itself while it is played live."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tardis_machine.sources.simulator.market import Change


class Fill(NamedTuple):
    """One trade as the venue reported it."""

    id: str
    time_us: int
    level: int
    lots: int
    is_buy: bool


class Listener(Protocol):
    """Takes what a feed sends while it is played live, instead of lines."""

    def take_message(self, channel: str, body: str) -> None:
        """Take one message, without what the venue wraps around it per subscription."""

    def take_book(self, sequence: int, time_us: int, changes: Sequence[Change]) -> None:
        """Take what the book message that follows changes."""

    def take_trade(self, fill: Fill) -> None:
        """Take one trade of the message that follows."""
