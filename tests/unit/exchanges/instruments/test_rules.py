"""Symbols to instruments: those of the golden files, and some that are easy to get wrong."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tardis_machine.exchanges.instruments import sizes
from tardis_machine.exchanges.instruments.registry import RULES, instrument_of
from tardis_machine.exchanges.instruments.spec import Kind
from tardis_machine.model.time import parse_us

GOLDEN = Path(__file__).parents[3] / "golden"
_SYMBOL = re.compile(r'"symbol":\s*("(?:[^"\\]|\\.)*")')
NOT_TRADED = {("bitmex", ".BXBT"), ("hyperliquid", "@162"), ("hyperliquid", "XYZ:TSLA")}
"""Indexes, and symbols that do not say what they stand for."""


def golden_symbols() -> list[tuple[str, str]]:
    """Return exchange and symbol of every record in the golden files."""
    found = {
        (folder.name, str(json.loads(text)))
        for folder in GOLDEN.iterdir()
        if folder.name in RULES
        for file in folder.glob("*.txt")
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("<")
        for text in _SYMBOL.findall(line)
    }
    return sorted(found)


def test_every_symbol_of_the_golden_files_is_known() -> None:
    symbols = golden_symbols()
    assert {exchange for exchange, _ in symbols} == set(RULES)
    unknown = {each for each in symbols if instrument_of(*each) is None}
    assert unknown == NOT_TRADED


@pytest.mark.parametrize(
    ("exchange", "pattern"),
    [
        ("huobi-dm", r'"contract_code":"(\w+)","contract_type":"\w+","contract_size":([\d.]+)'),
        ("kucoin-futures", r'"symbol":"(\w+)","rootSymbol":"\w+","multiplier":([\d.]+)'),
    ],
)
def test_sizes_are_those_of_the_messages_that_tell_them(exchange: str, pattern: str) -> None:
    texts = [file.read_text(encoding="utf-8") for file in (GOLDEN / exchange).glob("*.txt")]
    told = re.findall(pattern, "\n".join(texts))
    assert told
    for symbol, size in told:
        # Huobi tells sizes by the code of a contract, whose symbol is its base and an alias.
        alias = re.sub(r"\d{6}$", "_CW", symbol)
        found = instrument_of(exchange, alias)
        assert found is not None
        assert found.contract_size == float(size)


SIZES = [value for value in vars(sizes).values() if isinstance(value, sizes.Sizes)]


@pytest.mark.parametrize("known_sizes", SIZES, ids=lambda each: each.published)
def test_sizes_name_where_they_are_published(known_sizes: sizes.Sizes) -> None:
    assert "`" in known_sizes.published
    assert all(size > 0 for size in known_sizes.by_base.values())


def known(exchange: str, symbol: str) -> tuple[Any, ...]:
    found = instrument_of(exchange, symbol)
    assert found is not None
    return found.base, found.quote, found.kind, found.is_inverse, found.contract_size


@pytest.mark.parametrize(
    ("exchange", "symbol", "expected"),
    [
        ("binance", "BTCUSDT", ("BTC", "USDT", Kind.SPOT, False, 1.0)),
        ("binance", "ETHBTC", ("ETH", "BTC", Kind.SPOT, False, 1.0)),
        ("binance-jersey", "BTCEUR", ("BTC", "EUR", Kind.SPOT, False, 1.0)),
        ("binance-futures", "BTCUSDT", ("BTC", "USDT", Kind.PERPETUAL, False, 1.0)),
        ("binance-delivery", "BTCUSD_PERP", ("BTC", "USD", Kind.PERPETUAL, True, 100.0)),
        ("binance-delivery", "ETHUSD_240628", ("ETH", "USD", Kind.FUTURE, True, 10.0)),
        ("bitmex", "XBTUSD", ("BTC", "USD", Kind.PERPETUAL, True, 1.0)),
        ("bitmex", "XBTH24", ("BTC", "USD", Kind.FUTURE, True, 1.0)),
        ("bitmex", "ETHUSD", ("ETH", "USD", Kind.PERPETUAL, False, None)),
        ("bitmex", "XBT_USDT", ("BTC", "USDT", Kind.SPOT, False, None)),
        ("coinbase", "BTC-USD", ("BTC", "USD", Kind.SPOT, False, 1.0)),
        ("coinbase-international", "BTC-PERP", ("BTC", "USDC", Kind.PERPETUAL, False, 1.0)),
        ("coinbase-international", "ETH-USDC", ("ETH", "USDC", Kind.SPOT, False, 1.0)),
        ("kraken", "XBT/USD", ("BTC", "USD", Kind.SPOT, False, 1.0)),
        ("deribit", "BTC-PERPETUAL", ("BTC", "USD", Kind.PERPETUAL, True, 1.0)),
        ("deribit", "SOL_USDC-PERPETUAL", ("SOL", "USDC", Kind.PERPETUAL, False, 1.0)),
        ("deribit", "BTC-29MAR24", ("BTC", "USD", Kind.FUTURE, True, 1.0)),
        ("deribit", "BTC-29MAR24-62000-P", ("BTC", "USD", Kind.OPTION, False, None)),
        ("deribit", "BTC_USDC", ("BTC", "USDC", Kind.SPOT, False, 1.0)),
        (
            "binance-european-options",
            "BTC-231027-34000-C",
            ("BTC", "USDT", Kind.OPTION, False, 1.0),
        ),
        ("bitfinex", "BTCUSD", ("BTC", "USD", Kind.SPOT, False, 1.0)),
        ("bitfinex", "MATIC:BTC", ("MATIC", "BTC", Kind.SPOT, False, 1.0)),
        ("bitfinex", "ETHUST", ("ETH", "USDT", Kind.SPOT, False, 1.0)),
        ("bitfinex-derivatives", "BTCF0:USTF0", ("BTC", "USDT", Kind.PERPETUAL, False, 1.0)),
        ("cryptofacilities", "PI_XBTUSD", ("BTC", "USD", Kind.PERPETUAL, True, 1.0)),
        ("cryptofacilities", "PF_ETHUSD", ("ETH", "USD", Kind.PERPETUAL, False, 1.0)),
        ("cryptofacilities", "FI_XBTUSD_240628", ("BTC", "USD", Kind.FUTURE, True, 1.0)),
        ("dydx-v4", "BTC-USD", ("BTC", "USD", Kind.PERPETUAL, False, 1.0)),
        ("huobi", "BTCUSDT", ("BTC", "USDT", Kind.SPOT, False, 1.0)),
        ("huobi", "htbtc", ("HT", "BTC", Kind.SPOT, False, 1.0)),
        ("huobi-dm", "BTC_CW", ("BTC", "USD", Kind.FUTURE, True, 100.0)),
        ("huobi-dm", "ETH_NQ", ("ETH", "USD", Kind.FUTURE, True, 10.0)),
        ("huobi-dm-swap", "BTC-USD", ("BTC", "USD", Kind.PERPETUAL, True, 100.0)),
        ("huobi-dm-linear-swap", "ETH-USDT", ("ETH", "USDT", Kind.PERPETUAL, False, 0.01)),
        ("huobi-dm-linear-swap", "XRP-USDT", ("XRP", "USDT", Kind.PERPETUAL, False, None)),
        ("huobi-dm-linear-swap", "BTC-USDT-240329", ("BTC", "USDT", Kind.FUTURE, False, 0.001)),
        ("huobi-dm-options", "BTC-USDT-210521-C-42000", ("BTC", "USDT", Kind.OPTION, False, None)),
        ("hyperliquid", "BTC", ("BTC", "USDC", Kind.PERPETUAL, False, 1.0)),
        ("hyperliquid", "PURR/USDC", ("PURR", "USDC", Kind.SPOT, False, 1.0)),
        ("okex", "BTC-USDT", ("BTC", "USDT", Kind.SPOT, False, 1.0)),
        ("okex-swap", "BTC-USDT-SWAP", ("BTC", "USDT", Kind.PERPETUAL, False, 0.01)),
        ("okex-swap", "BTC-USD-SWAP", ("BTC", "USD", Kind.PERPETUAL, True, 100.0)),
        ("okex-swap", "PEPE-USDT-SWAP", ("PEPE", "USDT", Kind.PERPETUAL, False, None)),
        ("okex-futures", "ETH-USD-210326", ("ETH", "USD", Kind.FUTURE, True, 10.0)),
        ("okex-options", "SOL-USD_UM-240628-67.5-P", ("SOL", "USD", Kind.OPTION, False, None)),
        ("phemex", "BTCUSD", ("BTC", "USD", Kind.PERPETUAL, True, 1.0)),
        ("phemex", "SETHUSDT", ("ETH", "USDT", Kind.SPOT, False, 1.0)),
        ("phemex", "SOLUSDT", ("SOL", "USDT", Kind.PERPETUAL, False, 1.0)),
        ("phemex", "ETHUSD", ("ETH", "USD", Kind.PERPETUAL, False, None)),
        ("bybit", "BTCUSDT", ("BTC", "USDT", Kind.PERPETUAL, False, 1.0)),
        ("bybit", "BTCUSD", ("BTC", "USD", Kind.PERPETUAL, True, 1.0)),
        ("bybit", "BTCUSDM21", ("BTC", "USD", Kind.FUTURE, True, 1.0)),
        ("bybit", "BTCPERP", ("BTC", "USDC", Kind.PERPETUAL, False, 1.0)),
        ("bybit", "BTC-29DEC23", ("BTC", "USDC", Kind.FUTURE, False, 1.0)),
        ("bybit", "ETHUSDT-26SEP25", ("ETH", "USDT", Kind.FUTURE, False, 1.0)),
        ("bybit-spot", "BITBTC", ("BIT", "BTC", Kind.SPOT, False, 1.0)),
        ("crypto-com", "BTC_USDT", ("BTC", "USDT", Kind.SPOT, False, 1.0)),
        ("crypto-com", "BTCUSD-PERP", ("BTC", "USD", Kind.PERPETUAL, False, 1.0)),
        ("crypto-com", "BTCUSD-240329", ("BTC", "USD", Kind.FUTURE, False, 1.0)),
        ("crypto-com", "BTCUSD-240329-C45000", ("BTC", "USD", Kind.OPTION, False, None)),
        ("bitget", "BTCUSDC", ("BTC", "USDC", Kind.SPOT, False, 1.0)),
        ("bitget-futures", "BTCUSDT", ("BTC", "USDT", Kind.PERPETUAL, False, 1.0)),
        ("bitget-futures", "BTCPERP", ("BTC", "USDC", Kind.PERPETUAL, False, 1.0)),
        ("bitget-futures", "BTCUSD", ("BTC", "USD", Kind.PERPETUAL, False, None)),
        ("bitget-futures", "BTCUSDH25", ("BTC", "USD", Kind.FUTURE, False, None)),
        ("gate-io", "ETC_ETH", ("ETC", "ETH", Kind.SPOT, False, 1.0)),
        ("gate-io-futures", "BTC_USDT", ("BTC", "USDT", Kind.PERPETUAL, False, 0.0001)),
        ("gate-io-futures", "BTC_USD", ("BTC", "USD", Kind.PERPETUAL, True, 1.0)),
        ("gate-io-futures", "ETC_USD", ("ETC", "USD", Kind.PERPETUAL, False, None)),
        ("kucoin", "ETH-BTC", ("ETH", "BTC", Kind.SPOT, False, 1.0)),
        ("kucoin-futures", "XBTUSDTM", ("BTC", "USDT", Kind.PERPETUAL, False, 0.001)),
        ("kucoin-futures", "XBTUSDCM", ("BTC", "USDC", Kind.PERPETUAL, False, None)),
        ("kucoin-futures", "PEPEUSDTM", ("PEPE", "USDT", Kind.PERPETUAL, False, None)),
        ("kucoin-futures", "XBTUSDM", ("BTC", "USD", Kind.PERPETUAL, True, 1.0)),
        ("kucoin-futures", "XBTMH24", ("BTC", "USD", Kind.FUTURE, True, 1.0)),
        ("upbit", "KRW-BTC", ("BTC", "KRW", Kind.SPOT, False, 1.0)),
        ("bitstamp", "BTCUSD", ("BTC", "USD", Kind.SPOT, False, 1.0)),
        ("bitstamp", "BTCUSD-PERP", ("BTC", "USD", Kind.PERPETUAL, False, 1.0)),
        ("gemini", "XRPGUSD", ("XRP", "GUSD", Kind.SPOT, False, 1.0)),
        ("gemini", "BTCRLUSD", ("BTC", "RLUSD", Kind.SPOT, False, 1.0)),
        ("gemini", "BTCGUSDPERP", ("BTC", "GUSD", Kind.PERPETUAL, False, 1.0)),
        ("bybit-options", "BTC-9JUN23-26500-P", ("BTC", "USDC", Kind.OPTION, False, 1.0)),
        ("bybit-options", "ETH-1AUG25-4000-P-USDT", ("ETH", "USDT", Kind.OPTION, False, 1.0)),
    ],
)
def test_symbol_says_what_is_traded(exchange: str, symbol: str, expected: tuple[Any, ...]) -> None:
    assert known(exchange, symbol) == expected


@pytest.mark.parametrize(
    ("exchange", "symbol"),
    [("binance-futures", "1000SHIBUSDT"), ("phemex", "U1000PEPEUSDT"), ("hyperliquid", "KPEPE")],
)
def test_price_of_a_thousand_is_told_from_that_of_one(exchange: str, symbol: str) -> None:
    found = instrument_of(exchange, symbol)
    assert found is not None
    assert (found.base, found.multiplier) in {("SHIB", 1000), ("PEPE", 1000)}


@pytest.mark.parametrize(
    ("exchange", "symbol", "expiry"),
    [
        ("binance-futures", "BTCUSDT_240329", "2024-03-29T08:00:00.000Z"),
        ("deribit", "ETH-29MAR24-3400-P", "2024-03-29T08:00:00.000Z"),
        ("deribit", "MATIC_USDC-9MAR24-1D02-C", "2024-03-09T08:00:00.000Z"),
        ("huobi-dm-linear-swap", "BTC-USDT-240329", "2024-03-29T08:00:00.000Z"),
        ("binance-european-options", "BTC-231027-34000-C", "2023-10-27T08:00:00.000Z"),
        ("okex-futures", "BTC-USD-200626", "2020-06-26T08:00:00.000Z"),
        ("bitmex", "XBTH24", "2024-03-29T12:00:00.000Z"),
        ("bitmex", "XBTZ23", "2023-12-29T12:00:00.000Z"),
        ("kucoin-futures", "XBTMH24", "2024-03-29T08:00:00.000Z"),
        ("crypto-com", "BTCUSD-240329", "2024-03-29T08:00:00.000Z"),
        ("bybit", "BTCUSDH24", "2024-03-29T08:00:00.000Z"),
        ("bybit", "BTC-29DEC23", "2023-12-29T08:00:00.000Z"),
        ("bybit-options", "BTC-1AUG25-112000-P-USDT", "2025-08-01T08:00:00.000Z"),
    ],
)
def test_expiry_is_read_from_the_symbol(exchange: str, symbol: str, expiry: str) -> None:
    found = instrument_of(exchange, symbol)
    assert found is not None
    assert found.expiry_us == parse_us(expiry)


@pytest.mark.parametrize(
    ("exchange", "symbol"),
    [
        *[("nowhere", "BTCUSD"), ("deribit", "BTC-FS-29MAR24_PERP"), ("binance", "USDT")],
        *[("okex", ""), ("bybit", "BTCEUR"), ("bybit-spot", "BTC"), ("bybit-options", "BTCUSDT")],
        *[("huobi-dm", "BTC240329"), ("bitfinex", "BTC")],
        *[("crypto-com", "BTCUSD-INDEX"), ("upbit", "KRW"), ("kucoin-futures", "XBTUSDT")],
        *[("gate-io-futures", "BTC"), ("gate-io-futures", "BTC_USDT_20240329")],
        *[("bitget-futures", "BTCEUR"), ("bitget-futures", "PERP")],
        *[("cryptofacilities", "PV_XRPXBT"), ("binance-european-options", "BTCUSDT")],
    ],
)
def test_other_symbols_are_unknown(exchange: str, symbol: str) -> None:
    assert instrument_of(exchange, symbol) is None
