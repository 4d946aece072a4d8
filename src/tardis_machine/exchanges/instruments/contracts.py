"""Rules for symbols of contracts, by exchange family."""

import re

from msgspec.structs import replace

from tardis_machine.exchanges.instruments import sizes
from tardis_machine.exchanges.instruments.spec import Instrument, Kind
from tardis_machine.exchanges.instruments.symbols import (
    EXPIRY_HOUR,
    MONTH_CODES,
    expiry_us,
    last_friday_us,
    pair,
    split,
)

_MONTH_CODED = re.compile(rf"(?P<name>[A-Z0-9]+USD)(?P<month>[{MONTH_CODES}])(?P<year>\d{{2}})")

_KUCOIN_FUTURE = re.compile(rf"(?P<base>XBT|ETH)M(?P<month>[{MONTH_CODES}])(?P<year>\d{{2}})")


def bybit(symbol: str) -> Instrument | None:
    """Read `BTCUSDT`, `BTCUSD`, `BTCUSDH24`, `BTCPERP`, `BTC-29DEC23` or `BTCUSDT-29DEC23`."""
    name, _, date = symbol.upper().partition("-")
    expiry = expiry_us(date)
    kind = Kind.FUTURE if date else Kind.PERPETUAL
    if name.endswith("USDT"):
        return pair(name.removesuffix("USDT"), "USDT", kind, expiry_us=expiry)
    if date or name.endswith("PERP"):
        return pair(name.removesuffix("PERP"), "USDC", kind, expiry_us=expiry)
    return inverse_dollar(name)


def inverse_dollar(symbol: str) -> Instrument | None:
    """Read `BTCUSD`, or `BTCUSDH24` that expires on the last Friday of March; of a dollar each."""
    if found := _MONTH_CODED.fullmatch(symbol):
        month = MONTH_CODES.index(found["month"]) + 1
        expiry = last_friday_us(2000 + int(found["year"]), month, EXPIRY_HOUR)
        base = found["name"].removesuffix("USD")
        return pair(base, "USD", Kind.FUTURE, is_inverse=True, expiry_us=expiry)
    parts = split(symbol, ("USD",))
    return None if parts is None else pair(*parts, Kind.PERPETUAL, is_inverse=True)


def bybit_options(symbol: str) -> Instrument | None:
    """Read `BTC-30JUN23-28000-C`, or `BTC-1AUG25-112000-P-USDT` that is paid in USDT."""
    base, date, *rest = [*symbol.upper().split("-"), ""]
    expiry = expiry_us(date)
    quote = "USDT" if "USDT" in rest else "USDC"
    return None if expiry is None else pair(base, quote, Kind.OPTION, expiry_us=expiry)


def kucoin_futures(symbol: str) -> Instrument | None:
    """Read `XBTUSDTM`, `XBTUSDM`, or `XBTMH24` that expires on the last Friday of March."""
    if found := _KUCOIN_FUTURE.fullmatch(symbol):
        month = MONTH_CODES.index(found["month"]) + 1
        expiry = last_friday_us(2000 + int(found["year"]), month, EXPIRY_HOUR)
        return pair(found["base"], "USD", Kind.FUTURE, is_inverse=True, expiry_us=expiry)
    parts = split(symbol.removesuffix("M"), ("USDT", "USDC", "USD"))
    if parts is None or not symbol.endswith("M"):
        return None
    if parts[1] == "USD":
        return pair(*parts, Kind.PERPETUAL, is_inverse=True)
    size = sizes.KUCOIN_USDT.of(parts[0]) if parts[1] == "USDT" else None
    return pair(*parts, Kind.PERPETUAL, contract_size=size)


def gate_io_futures(symbol: str) -> Instrument | None:
    """Read `BTC_USDT`, `BTC_USD` that is inverse, or `ETH_USD` that is paid in BTC."""
    base, _, quote = symbol.upper().partition("_")
    if not quote or "_" in quote:
        return None
    if (base, quote) == ("BTC", "USD"):
        return pair(base, quote, Kind.PERPETUAL, is_inverse=True)
    size = sizes.GATE_IO_USDT.of(base) if quote == "USDT" else None
    return pair(base, quote, Kind.PERPETUAL, contract_size=size)


def bitget_futures(symbol: str) -> Instrument | None:
    """Read `BTCUSDT`, `BTCPERP` in USDC, `BTCUSD` or `BTCUSDH25`, which are paid in coins."""
    name = symbol.upper()
    for suffix, quote in (("USDT", "USDT"), ("PERP", "USDC")):
        if name.endswith(suffix) and name != suffix:
            return pair(name.removesuffix(suffix), quote, Kind.PERPETUAL)
    found = inverse_dollar(name)
    # What one of their contracts is worth differs from symbol to symbol.
    return None if found is None else replace(found, is_inverse=False, contract_size=None)


def crypto_com(symbol: str) -> Instrument | None:
    """Read `BTC_USDT`, `BTCUSD-PERP`, `BTCUSD-240329` or `BTCUSD-240329-C45000`."""
    if "_" in symbol:
        base, _, quote = symbol.upper().partition("_")
        return pair(base, quote, Kind.SPOT)
    name, *rest = symbol.upper().split("-")
    parts, expiry = split(name, ("USD", "USDT")), expiry_us(rest[0]) if rest else None
    if parts is None or not (expiry or rest == ["PERP"]):
        return None
    if len(rest) > 1:
        return pair(*parts, Kind.OPTION, contract_size=None, expiry_us=expiry)
    kind = Kind.PERPETUAL if expiry is None else Kind.FUTURE
    return pair(*parts, kind, expiry_us=expiry)
