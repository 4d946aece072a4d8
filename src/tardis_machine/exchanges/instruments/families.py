"""Rules per exchange family: from a symbol to its instrument, or None when no rule fits.

Contract sizes are those that the exchanges publish (`sizes`); where they differ from contract to
contract, only the common ones are known and the others are left open.
"""

import re

from tardis_machine.exchanges.instruments import sizes
from tardis_machine.exchanges.instruments.spec import Instrument, Kind
from tardis_machine.exchanges.instruments.symbols import (
    MONTH_CODES,
    expiry_us,
    last_friday_us,
    pair,
    split,
)
from tardis_machine.exchanges.venues.hyperliquid.coins import THOUSANDS
from tardis_machine.exchanges.venues.phemex.symbols import is_decimal, is_spot, native_id

_BINANCE_QUOTES = (
    *("USDT", "FDUSD", "USDC", "BUSD", "TUSD", "USD", "USDP", "PAX", "DAI", "BTC", "ETH", "BNB"),
    *("EUR", "GBP", "AUD", "BRL", "TRY", "RUB", "UAH", "ZAR", "JPY", "ARS", "NGN", "PLN", "RON"),
)
_BITMEX_FUTURE = re.compile(rf"XBT([{MONTH_CODES}])(\d{{2}})")
_HUOBI_QUOTES = ("USDT", "HUSD", "USDC", "USDD", "TUSD", "BTC", "ETH", "HT", "TRX", "EUR")
_TERMS = 3
"""Expiry, strike and type of an option."""
_BITFINEX_PAIR = len("BTCUSD")
_BITFINEX_NAMES = {"UST": "USDT", "UDC": "USDC", "EUT": "EURT"}
_BITMEX_EXPIRY_HOUR = 12
_PAIR = 2


def spot(symbol: str) -> Instrument | None:
    """Read `BTC-USD`, `XBT/USD` or `BTC_USDT`."""
    parts = re.split(r"[-/_]", symbol)
    return pair(parts[0], parts[1], Kind.SPOT) if len(parts) == _PAIR else None


def binance(symbol: str) -> Instrument | None:
    """Read a spot market of Binance."""
    found = split(symbol.upper(), _BINANCE_QUOTES)
    return None if found is None else pair(*found, Kind.SPOT)


def binance_futures(symbol: str) -> Instrument | None:
    """Read a linear contract: `BTCUSDT`, `BTCUSDT_240329`."""
    name, _, date = symbol.upper().partition("_")
    found = split(name, ("USDT", "USDC", "BUSD", "BTC"))
    if found is None:
        return None
    expiry = expiry_us(date)
    kind = Kind.PERPETUAL if expiry is None else Kind.FUTURE
    return pair(*found, kind, expiry_us=expiry)


def binance_delivery(symbol: str) -> Instrument | None:
    """Read an inverse contract: `BTCUSD_PERP`, `ETHUSD_240628`."""
    name, _, date = symbol.upper().partition("_")
    if not name.endswith("USD"):
        return None
    base, expiry = name.removesuffix("USD"), expiry_us(date)
    size = sizes.BINANCE_INVERSE.of(base)
    kind = Kind.PERPETUAL if expiry is None else Kind.FUTURE
    return pair(base, "USD", kind, is_inverse=True, contract_size=size, expiry_us=expiry)


def binance_options(symbol: str) -> Instrument | None:
    """Read `BTC-231027-34000-C`; premiums are paid in USDT."""
    base, *rest = symbol.upper().split("-")
    expiry = expiry_us(rest[0]) if len(rest) == _TERMS else None
    return None if expiry is None else pair(base, "USDT", Kind.OPTION, expiry_us=expiry)


def bitfinex(symbol: str) -> Instrument | None:
    """Read `BTCUSD`, `MATIC:BTC`, or the perpetual `BTCF0:USTF0`; UST is USDT there."""
    base, colon, quote = symbol.upper().partition(":")
    if not colon and len(base) == _BITFINEX_PAIR:
        base, quote = base[:3], base[3:]
    if not quote:
        return None
    is_perpetual = quote.endswith("F0") and base.endswith("F0")
    base, quote = base.removesuffix("F0"), quote.removesuffix("F0")
    kind = Kind.PERPETUAL if is_perpetual else Kind.SPOT
    base, quote = (_BITFINEX_NAMES.get(name, name) for name in (base, quote))
    return pair(base, quote, kind)


def bitmex(symbol: str) -> Instrument | None:
    """Read a contract of BitMEX; those on XBT in USD are inverse, all others differ in size."""
    if found := _BITMEX_FUTURE.fullmatch(symbol):
        month = MONTH_CODES.index(found[1]) + 1
        expiry = last_friday_us(2000 + int(found[2]), month, _BITMEX_EXPIRY_HOUR)
        return pair("XBT", "USD", Kind.FUTURE, is_inverse=True, expiry_us=expiry)
    if symbol == "XBTUSD":
        return pair("XBT", "USD", Kind.PERPETUAL, is_inverse=True)
    if "_" in symbol:
        base, _, quote = symbol.partition("_")
        return pair(base, quote, Kind.SPOT, contract_size=None)
    parts = None if symbol.startswith(".") else split(symbol, ("USD", "USDT", "EUR"))
    return None if parts is None else pair(*parts, Kind.PERPETUAL, contract_size=None)


def coinbase_international(symbol: str) -> Instrument | None:
    """Read `BTC-PERP`, whose price is in USDC, or a spot market."""
    base, dash, kind = symbol.partition("-")
    return pair(base, "USDC", Kind.PERPETUAL) if dash and kind == "PERP" else spot(symbol)


def cryptofacilities(symbol: str) -> Instrument | None:
    """Read `PI_XBTUSD`, `PF_ETHUSD` or `FI_XBTUSD_240628`; contracts end at 16:00 in London."""
    prefix, _, rest = symbol.upper().partition("_")
    found = split(rest.partition("_")[0], ("USD",))
    kinds = {"P": Kind.PERPETUAL, "F": Kind.FUTURE}
    if found is None or prefix[:1] not in kinds or prefix[1:] not in ("I", "F"):
        return None
    return pair(*found, kinds[prefix[0]], is_inverse=prefix[1] == "I")


def deribit(symbol: str) -> Instrument | None:
    """Read `BTC-PERPETUAL`, `ETH_USDC-29MAR24`, `BTC-29MAR24-62000-P` or `BTC_USDC`."""
    name, *rest = symbol.upper().split("-")
    base, _, linear = name.partition("_")
    if not rest:
        return pair(base, linear, Kind.SPOT) if linear else None
    facts = {"is_inverse": not linear}
    if rest == ["PERPETUAL"]:
        return pair(base, linear or "USD", Kind.PERPETUAL, **facts)
    expiry = expiry_us(rest[0])
    if expiry is None:
        return None
    if len(rest) == 1:
        return pair(base, linear or "USD", Kind.FUTURE, expiry_us=expiry, **facts)
    # The premium of an option on coins is paid in coins: its worth in USD is not in the event.
    return pair(base, linear or "USD", Kind.OPTION, contract_size=None, expiry_us=expiry)


def dydx_v4(symbol: str) -> Instrument | None:
    """Read `BTC-USD`; markets with an address for a name are left open."""
    base, dash, quote = symbol.partition("-")
    return pair(base, quote, Kind.PERPETUAL) if dash and "," not in base else None


def huobi(symbol: str) -> Instrument | None:
    """Read a spot market of Huobi."""
    found = split(symbol.upper(), _HUOBI_QUOTES)
    return None if found is None else pair(*found, Kind.SPOT)


def huobi_futures(symbol: str) -> Instrument | None:
    """Read `BTC_CW`, the contract of this week; when that expires is not in the symbol."""
    base, _, alias = symbol.upper().partition("_")
    if alias not in ("CW", "NW", "CQ", "NQ"):
        return None
    size = sizes.HUOBI_INVERSE.of(base)
    return pair(base, "USD", Kind.FUTURE, is_inverse=True, contract_size=size)


def huobi_swap(symbol: str) -> Instrument | None:
    """Read `BTC-USD`, `BTC-USDT`, `BTC-USDT-240329` or `BTC-USDT-210521-C-42000`."""
    base, quote, *rest = [*symbol.upper().split("-"), ""]
    if not quote:
        return None
    expiry = expiry_us(rest[0])
    if len(rest) > _PAIR:
        return pair(base, quote, Kind.OPTION, contract_size=None, expiry_us=expiry)
    kind = Kind.FUTURE if rest[0] else Kind.PERPETUAL
    known = sizes.HUOBI_INVERSE if quote == "USD" else sizes.HUOBI_USDT
    size = known.of(base) if quote in ("USD", "USDT") else None
    facts = {"is_inverse": quote == "USD", "contract_size": size, "expiry_us": expiry}
    return pair(base, quote, kind, **facts)


def hyperliquid(symbol: str) -> Instrument | None:
    """Read a perpetual, `BTC` or `KPEPE` for a thousand, or `PURR/USDC`; `@107` names no coins."""
    if "/" in symbol:
        return spot(symbol)
    if symbol.startswith("@") or ":" in symbol:
        return None
    is_thousand = symbol[:1] in ("K", "k") and symbol[1:] in THOUSANDS
    return pair(f"1000{symbol[1:]}" if is_thousand else symbol, "USDC", Kind.PERPETUAL)


def okex(symbol: str) -> Instrument | None:
    """Read `BTC-USDT`, `BTC-USDT-SWAP`, `BTC-USD-240628` or `BTC-USD-240628-60000-C`."""
    base, quote, *rest = [*symbol.upper().split("-"), ""]
    rest = [part for part in rest if part]
    if not quote:
        return None
    if not rest:
        return pair(base, quote, Kind.SPOT)
    # `USD_UM` is margined in USD, and its contracts are not those of `USD`.
    is_inverse, quote = quote == "USD", quote.partition("_")[0]
    expiry = expiry_us(rest[0])
    if len(rest) > 1:
        return pair(base, quote, Kind.OPTION, contract_size=None, expiry_us=expiry)
    known = sizes.OKEX_INVERSE if is_inverse else sizes.OKEX_USDT
    size = known.of(base) if is_inverse or quote == "USDT" else None
    kind = Kind.PERPETUAL if rest == ["SWAP"] else Kind.FUTURE
    facts = {"is_inverse": is_inverse, "contract_size": size, "expiry_us": expiry}
    return pair(base, quote, kind, **facts)


def phemex(symbol: str) -> Instrument | None:
    """Read an id of Phemex, or its symbol in upper case."""
    native = native_id(symbol)
    quotes = ("USDT", "USDC", "USD", "BRZ", "EUR", "BTC")
    found = split(native.lstrip("suc"), quotes)
    if found is None:
        return None
    if is_spot(native):
        return pair(*found, Kind.SPOT)
    if native == "BTCUSD":
        return pair(*found, Kind.PERPETUAL, is_inverse=True)
    return pair(*found, Kind.PERPETUAL, contract_size=1.0 if is_decimal(native) else None)
