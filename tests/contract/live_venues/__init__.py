"""What venues send live, in their own words, for the feed contract: a module per family."""

from itertools import chain

from tests.contract.live_venues import (
    binance,
    bitfinex,
    bitget,
    bitmex,
    bitstamp,
    bybit,
    coinbase,
    crypto_com,
    cryptofacilities,
    deribit,
    dydx_v4,
    gate_io,
    gemini,
    huobi,
    hyperliquid,
    kraken,
    kucoin,
    okex,
    phemex,
    upbit,
)
from tests.contract.live_venues.binance import binance_venue
from tests.contract.live_venues.bitmex import BITMEX
from tests.contract.live_venues.deribit import DERIBIT, deribit_push
from tests.contract.live_venues.kucoin import KUCOIN_TOKEN
from tests.contract.live_venues.okex import okx_venue
from tests.contract.live_venues.venue import ISO, ISO_MS, TIME_MS, LiveVenue, Message

FAMILIES = (
    bitmex,
    binance,
    deribit,
    coinbase,
    okex,
    kraken,
    phemex,
    bitstamp,
    gemini,
    crypto_com,
    upbit,
    kucoin,
    gate_io,
    bitget,
    bybit,
    bitfinex,
    cryptofacilities,
    hyperliquid,
    dydx_v4,
    huobi,
)
VENUES: tuple[LiveVenue, ...] = tuple(chain.from_iterable(family.VENUES for family in FAMILIES))

__all__ = [
    "BITMEX",
    "DERIBIT",
    "ISO",
    "ISO_MS",
    "KUCOIN_TOKEN",
    "TIME_MS",
    "VENUES",
    "LiveVenue",
    "Message",
    "binance_venue",
    "deribit_push",
    "okx_venue",
]
