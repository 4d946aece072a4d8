"""What both generations share: levels, funding, and how subscriptions are read."""

from typing import Any

from msgspec import Struct

from tardis_machine.exchanges.numbers import LooseNumber
from tardis_machine.exchanges.tags import SEPARATOR
from tardis_machine.model.numbers import nonzero_number, optional_number
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text


class LooseLevel(Struct, gc=False, array_like=True):
    """Price and amount of a best level, which may be no numbers."""

    price: LooseNumber = None
    amount: LooseNumber = None


NO_LEVEL = LooseLevel()


def best_level(levels: list[LooseLevel]) -> LooseLevel:
    """Return the first level, or one without values."""
    return levels[0] if levels else NO_LEVEL


def funding_of(rate: LooseNumber, paid: LooseNumber) -> tuple[float | None, str | None]:
    """Return the funding rate and when it is paid; contracts without funding have a time of 0."""
    paid_ms = nonzero_number(paid)
    return (None, None) if paid_ms is None else (optional_number(rate), ms_text(paid_ms))


def locate(tag: str) -> Filter:
    """Return the channel of `update,books`."""
    action, _, channel = tag.partition(SEPARATOR)
    return Filter(channel or action)


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"op": "subscribe", "args": [{"topic": "books", "symbol": "BTCUSDT"}]}`.

    The classic form has `channel` and `instId`.
    """
    if not isinstance(message, dict) or message.get("op") != "subscribe":
        return None
    filters = []
    for argument in message["args"]:
        symbol = argument.get("instId") or argument.get("symbol")
        channel = argument.get("channel") or argument["topic"]
        filters.append(Filter(channel, (symbol,) if symbol else ()))
    return filters
