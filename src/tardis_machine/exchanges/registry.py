"""Every exchange id with its venue, whose module is imported when it is first needed."""

from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from types import MappingProxyType

from msgspec.structs import replace

from tardis_machine.exchanges.catalog import CATALOG
from tardis_machine.exchanges.spec import Exchange, Venue

FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "binance": (
            *("binance", "binance-us", "binance-jersey"),
            *("binance-futures", "binance-delivery", "binance-european-options"),
        ),
        "bitfinex": ("bitfinex", "bitfinex-derivatives"),
        "bitmex": ("bitmex",),
        "coinbase": ("coinbase", "coinbase-international"),
        "cryptofacilities": ("cryptofacilities",),
        "deribit": ("deribit",),
        "dydx_v4": ("dydx-v4",),
        "huobi": (
            *("huobi", "huobi-dm", "huobi-dm-swap"),
            *("huobi-dm-linear-swap", "huobi-dm-options"),
        ),
        "hyperliquid": ("hyperliquid",),
        "okex": (
            *("okex", "okex-futures", "okex-swap", "okex-options"),
            *("okcoin", "okex-spreads"),
        ),
        "phemex": ("phemex",),
        "kraken": ("kraken",),
        "bitget": ("bitget", "bitget-futures"),
        "bitstamp": ("bitstamp",),
        "bybit": ("bybit", "bybit-spot", "bybit-options"),
        "crypto_com": ("crypto-com",),
        "gate_io": ("gate-io", "gate-io-futures"),
        "gemini": ("gemini",),
        "kucoin": ("kucoin", "kucoin-futures"),
        "upbit": ("upbit",),
    }
)
"""Modules of `exchanges.venues` and the ids they provide; a new one is added here."""


@cache
def _load_venue(family: str, exchange: str) -> Venue:
    module = import_module(f"tardis_machine.exchanges.venues.{family}")
    venue: Venue = module.VENUES[exchange]
    return venue


def _compose() -> dict[str, Exchange]:
    families = {exchange: family for family, ids in FAMILIES.items() for exchange in ids}
    return {
        name: replace(exchange, load_venue=partial(_load_venue, families[name], name))
        if name in families
        else exchange
        for name, exchange in CATALOG.items()
    }


REGISTRY: Mapping[str, Exchange] = MappingProxyType(_compose())
"""Exchange id -> everything known about it, in the order of the API."""
