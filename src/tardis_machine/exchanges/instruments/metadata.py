"""Instruments as the data API describes them (`/instruments/{exchange}`)."""

from collections.abc import Iterator

import msgspec

from tardis_machine.exchanges.instruments.registry import instrument_of
from tardis_machine.exchanges.instruments.spec import Instrument, Kind
from tardis_machine.exchanges.instruments.symbols import pair
from tardis_machine.model.time import parse_instant


class InstrumentChange(msgspec.Struct, frozen=True, rename="camel"):
    """What was different until some time."""

    until: str
    contract_multiplier: float | None = None


class InstrumentInfo(msgspec.Struct, frozen=True, rename="camel"):
    """One instrument; fields that are not used here are left out."""

    id: str
    base_currency: str
    quote_currency: str
    type: str
    inverse: bool | None = None
    quanto: bool | None = None
    contract_multiplier: float | None = None
    expiry: str | None = None
    changes: list[InstrumentChange] | None = None


def periods_of(exchange: str, info: InstrumentInfo) -> list[tuple[int, Instrument]]:
    """Return the instrument from each time on at which its contract size changed, oldest first.

    Which unit amounts have is known by rule alone: a contract size is taken from the data API only
    where there is no rule, or the rule leaves it open.
    """
    if info.type not in set(Kind):
        return []
    ruled = instrument_of(exchange, info.id) or instrument_of(exchange, info.id.upper())
    if ruled is not None and ruled.contract_size is not None:
        return [(0, _instrument(info, ruled, ruled.contract_size))]
    return [(since_us, _instrument(info, ruled, size)) for since_us, size in _sizes(info)]


def _instrument(info: InstrumentInfo, ruled: Instrument | None, size: float | None) -> Instrument:
    found = pair(
        info.base_currency.upper(),
        info.quote_currency.upper(),
        Kind(info.type),
        is_inverse=bool(info.inverse) if ruled is None else ruled.is_inverse,
        contract_size=size,
        expiry_us=None if info.expiry is None else parse_instant(info.expiry),
    )
    if ruled is not None and ruled.multiplier != 1:
        found = msgspec.structs.replace(found, base=ruled.base, multiplier=ruled.multiplier)
    return found


def _sizes(info: InstrumentInfo) -> Iterator[tuple[int, float | None]]:
    """Yield since when each contract size holds."""
    if info.quanto:
        # Worth units of a third currency.
        yield 0, None
        return
    since_us = 0
    ends = sorted(
        (end_us, change.contract_multiplier)
        for change in info.changes or ()
        if change.contract_multiplier is not None
        and (end_us := parse_instant(change.until)) is not None
    )
    for end_us, size in ends:
        yield since_us, size
        since_us = end_us
    is_spot = info.type == Kind.SPOT
    yield since_us, 1.0 if is_spot else info.contract_multiplier
