"""The rule of every exchange id."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tardis_machine.exchanges.instruments import contracts, families
from tardis_machine.exchanges.instruments.spec import Instrument
from tardis_machine.exchanges.instruments.spot_pairs import joined_pair, quote_first

RULES: Mapping[str, Callable[[str], Instrument | None]] = MappingProxyType(
    {
        "binance": families.binance,
        "binance-us": families.binance,
        "binance-jersey": families.binance,
        "binance-futures": families.binance_futures,
        "binance-delivery": families.binance_delivery,
        "binance-european-options": families.binance_options,
        "bitfinex": families.bitfinex,
        "bitfinex-derivatives": families.bitfinex,
        "bitmex": families.bitmex,
        "coinbase": families.spot,
        "coinbase-international": families.coinbase_international,
        "cryptofacilities": families.cryptofacilities,
        "deribit": families.deribit,
        "dydx-v4": families.dydx_v4,
        "huobi": families.huobi,
        "huobi-dm": families.huobi_futures,
        "huobi-dm-swap": families.huobi_swap,
        "huobi-dm-linear-swap": families.huobi_swap,
        "huobi-dm-options": families.huobi_swap,
        "hyperliquid": families.hyperliquid,
        "kraken": families.spot,
        "okcoin": families.spot,
        "okex": families.okex,
        "okex-futures": families.okex,
        "okex-swap": families.okex,
        "okex-options": families.okex,
        "phemex": families.phemex,
        "bybit": contracts.bybit,
        "bybit-spot": joined_pair("BRZ", "MNT"),
        "bybit-options": contracts.bybit_options,
        "crypto-com": contracts.crypto_com,
        "upbit": quote_first,
        "bitget": joined_pair("BGB", "BRL"),
        "bitget-futures": contracts.bitget_futures,
        "gate-io": families.spot,
        "gate-io-futures": contracts.gate_io_futures,
        "kucoin": families.spot,
        "kucoin-futures": contracts.kucoin_futures,
        "bitstamp": joined_pair("PAX", perpetual="-PERP"),
        "gemini": joined_pair("GUSD", "RLUSD", "LTC", "BCH", "FIL", "SOL", perpetual="PERP"),
    }
)
"""Exchange id -> the rule for its symbols; spreads have none: two legs are two of them."""


def instrument_of(exchange: str, symbol: str) -> Instrument | None:
    """Return the instrument that a symbol stands for; None when no rule knows it."""
    rule = RULES.get(exchange)
    return None if rule is None or not symbol else rule(symbol)
