"""Every exchange id: its channels, its data types and the dates on which its mappers switch.

Facts only, for exchanges with mappers and without: validation texts, raw filters and the cutting of
ranges need them for all. The order is part of the API: error texts list the ids in it.
"""

import re
from collections.abc import Mapping

from tardis_machine.exchanges.spec import Exchange
from tardis_machine.model.data_types import PLAIN_TYPES
from tardis_machine.model.time import parse_instant

_LETTERS = {
    "T": "trade",
    "B": "book_change",
    "D": "derivative_ticker",
    "L": "liquidation",
    "O": "option_summary",
    "K": "book_ticker",
}

# An id with its data types, then its channels. A channel that is listed twice is listed twice in
# error texts.
_EXCHANGES = """
aster TBK
    trade aggTrade ticker depth depthSnapshot bookTicker
aster-futures TBDLK
    trade aggTrade ticker depth depthSnapshot bookTicker markPrice forceOrder assetIndex
    openInterest
bitmex TBDLK
    trade orderBookL2 liquidation connected announcement chat publicNotifications instrument
    settlement funding insurance orderBookL2_25 orderBook10 quote quoteBin1m quoteBin5m quoteBin1h
    quoteBin1d tradeBin1m tradeBin5m tradeBin1h tradeBin1d
deribit TBDLOK
    book deribit_price_index deribit_price_ranking deribit_volatility_index
    estimated_expiration_price markprice.options perpetual trades ticker quote platform_state
    instrument.state.any
binance-futures TBDLK
    trade aggTrade ticker depth markPrice premiumIndex indexConstituents depthSnapshot bookTicker
    forceOrder openInterest fundingInfo insuranceBalance recentTrades compositeIndex
    topLongShortAccountRatio topLongShortPositionRatio globalLongShortAccountRatio
    takerlongshortRatio !contractInfo assetIndex
binance-delivery TBDLK
    trade aggTrade ticker depth markPrice indexPrice depthSnapshot bookTicker forceOrder
    openInterest fundingInfo recentTrades topLongShortAccountRatio topLongShortPositionRatio
    globalLongShortAccountRatio takerBuySellVol !contractInfo
binance-european-options TBOK
    trade depth100 index markPrice ticker openInterest optionTrade optionTicker depth20 bookTicker
    optionIndexPrice optionMarkPrice optionOpenInterest !optionSymbol
binance TBK
    trade aggTrade ticker depth depthSnapshot bookTicker recentTrades borrowInterest
ftx TBDLK
    orderbook trades instrument markets orderbookGrouped lendingRate borrowRate borrowSummary
    ticker leveragedTokenInfo busy
okex-futures TBDLK
    futures/trade futures/depth futures/depth_l2_tbt futures/ticker futures/mark_price
    futures/liquidation index/ticker system/status information/sentiment
    information/long_short_ratio information/margin trades trades-all books-l2-tbt bbo-tbt books
    tickers open-interest mark-price funding-rate price-limit status instruments index-tickers
    long-short-account-ratio taker-volume liquidations public-struc-block-trades liquidation-orders
    estimated-price long-short-account-ratio-contract long-short-account-ratio-contract-top-trader
    long-short-position-ratio-contract-top-trader public-block-trades taker-volume-contract
okex-options TBOK
    option/trade option/depth option/depth_l2_tbt option/ticker option/summary option/instruments
    index/ticker system/status option/trades trades trades-all books-l2-tbt bbo-tbt books tickers
    opt-summary status instruments index-tickers open-interest mark-price price-limit
    public-struc-block-trades option-trades estimated-price public-block-trades
okex-swap TBDLK
    swap/trade swap/depth swap/depth_l2_tbt swap/ticker swap/funding_rate swap/mark_price
    swap/liquidation index/ticker system/status information/sentiment information/long_short_ratio
    information/margin trades trades-all books-l2-tbt bbo-tbt books tickers open-interest
    mark-price price-limit funding-rate status instruments index-tickers long-short-account-ratio
    taker-volume liquidations public-struc-block-trades liquidation-orders
    long-short-account-ratio-contract long-short-account-ratio-contract-top-trader
    long-short-position-ratio-contract-top-trader public-block-trades taker-volume-contract
okex TBK
    spot/trade spot/depth spot/depth_l2_tbt spot/ticker system/status margin/interest_rate trades
    trades-all books-l2-tbt bbo-tbt books tickers interest-rate-loan-quota
    vip-interest-rate-loan-quota status instruments taker-volume public-struc-block-trades
    liquidations loan-ratio public-block-trades
okex-spreads TBK
    sprd-public-trades sprd-bbo-tbt sprd-books5 sprd-tickers
huobi-dm TBDLK
    depth detail trade bbo basis liquidation_orders contract_info open_interest elite_account_ratio
    elite_position_ratio
huobi-dm-swap TBDLK
    depth detail trade bbo basis funding_rate liquidation_orders contract_info open_interest
    elite_account_ratio elite_position_ratio
huobi-dm-linear-swap TBDLK
    depth detail trade bbo basis funding_rate liquidation_orders contract_info open_interest
    elite_account_ratio elite_position_ratio
huobi TBK
    depth detail trade bbo mbp etp mbp.20
bitfinex-derivatives TBDLK
    trades book raw_book status liquidations ticker
bitfinex TBK
    trades book raw_book ticker
coinbase TBK
    match subscriptions received open done change l2update ticker snapshot last_match full_snapshot
    rfq_matches
coinbase-international TBDK
    INSTRUMENTS MATCH FUNDING RISK LEVEL1 LEVEL2 CANDLES_ONE_MINUTE
cryptofacilities TBDLK
    trade trade_snapshot book book_snapshot ticker heartbeat
kraken TBK
    trade ticker book spread instrument
bitstamp TB
    live_trades live_orders diff_order_book
gemini TBK
    trade l2_updates auction_open auction_indicative auction_result depth bookTicker
poloniex TB
    price_aggregated_book trades ticker book_lv2
bybit TBDLK
    trade instrument_info orderBookL2_25 insurance orderBook_200 liquidation trade instrument_info
    orderBookL2_25 insurance orderBook_200 liquidation long_short_ratio orderbook.1 orderbook.50
    orderbook.500 publicTrade tickers liquidation allLiquidation orderbook.1000
bybit-spot TBK
    trade bookTicker depth orderbook.1 orderbook.50 publicTrade tickers lt orderbook.200
bybit-options TBO
    orderbook.25 orderbook.100 publicTrade tickers
phemex TBD
    book orderbook_p trades trades_p market24h spot_market24h perp_market24h_pack_p
delta TBDK
    l2_orderbook recent_trade recent_trade_snapshot mark_price spot_price funding_rate
    product_updates announcements all_trades v2/ticker l1_orderbook l2_updates spot_30mtwap_price
ftx-us TBK
    orderbook trades markets orderbookGrouped ticker
binance-us TBK
    trade aggTrade ticker depth depthSnapshot bookTicker recentTrades borrowInterest
gate-io-futures TBDK
    trades order_book tickers book_ticker
mexc-futures TBD
    push.deal push.depth push.depth.snapshot push.ticker push.index.price push.fair.price
    push.funding.rate push.contract
gate-io TBK
    trades depth ticker book_ticker order_book_update obu
okcoin TBK
    spot/trade spot/depth spot/depth_l2_tbt spot/ticker system/status trades books bbo-tbt tickers
bitflyer TBK
    lightning_executions lightning_board_snapshot lightning_board lightning_ticker
hitbtc TB
    updateTrades snapshotTrades snapshotOrderbook updateOrderbook
coinflex TBD
    futures/depth trade ticker
binance-jersey TB
    trade aggTrade ticker depth depthSnapshot bookTicker recentTrades borrowInterest
binance-dex TBK
    trades marketDiff depthSnapshot ticker
upbit TB
    trade orderbook ticker
ascendex TBDK
    trades depth-realtime depth-snapshot-realtime bbo futures-pricing-data
dydx TBD
    v3_trades v3_orderbook v3_markets
dydx-v4 TBDL
    v4_trades v4_orderbook v4_markets
serum TBK
    recent_trades trade quote l2snapshot l2update l3snapshot open fill change done
mango TBK
    recent_trades trade quote l2snapshot l2update l3snapshot open fill change done
huobi-dm-options TBO
    trade detail depth bbo open_interest option_market_index option_index
star-atlas TBK
    recent_trades trade quote l2snapshot l2update l3snapshot open fill change done
crypto-com TBDK
    trade book ticker settlement index mark funding estimatedfunding
kucoin TBK
    market/ticker market/snapshot market/level2 market/match market/level2Snapshot
kucoin-futures TBDK
    contractMarket/execution contractMarket/level2 contractMarket/level2Snapshot
    contractMarket/tickerV2 contract/instrument contract/details contractMarket/snapshot
bitnomial TB
    trade level book block status
woo-x TBDK
    trade orderbook orderbookupdate ticker bbo indexprice markprice openinterest estfundingrate
blockchain-com TB
    trades l2 l3 ticker
bitget TBK
    trade publicTrade books1 books15 books
bitget-futures TBDLK
    trade publicTrade books1 books15 books ticker liquidation
hyperliquid TBDK
    l2Book fastBook trades activeAssetCtx activeSpotAssetCtx bbo
lighter TBDLK
    order_book trade ticker market_stats spot_market_stats
bullish TBDOK
    V1TALevel2 V1TALevel1 V1TAAnonymousTradeUpdate V1TATickerResponse V1TAIndexPrice
mexc TBK
    spot@public.aggre.deals.v3.api.pb@10ms spot@public.aggre.depth.v3.api.pb@10ms
    spot@public.aggre.depth.snapshot.v3.api.pb@10ms spot@public.aggre.bookTicker.v3.api.pb@10ms
polymarket TBK
    book price_change last_trade_price best_bid_ask tick_size_change sport_result new_market
    market_resolved
"""

# From the instant on, in UTC, these data types come in another format or on other channels.
_SWITCHES: Mapping[str, Mapping[str, str]] = {
    "binance-european-options": {"2025-12-17": "TBO"},
    "okex-futures": {
        "2019-12-05": "B",
        "2021-12-23": "TBDLK",
        "2022-05-06": "K",
        "2023-02-25": "B",
        "2023-03-09": "B",
        "2023-04-10 08:40": "D",
        "2023-10-19": "T",
        "2026-05-21": "B",
    },
    "okex-options": {
        "2020-02-08": "B",
        "2021-12-23": "TBOK",
        "2022-05-06": "K",
        "2023-02-25": "B",
        "2023-03-09": "B",
        "2023-10-19": "T",
        "2026-05-21": "B",
    },
    "okex-swap": {
        "2020-02-08": "B",
        "2021-12-23": "TBDLK",
        "2022-05-06": "K",
        "2023-02-25": "B",
        "2023-03-09": "B",
        "2023-04-10 08:40": "D",
        "2023-10-19": "T",
        "2026-05-21": "B",
    },
    "okex": {
        "2020-04-10": "B",
        "2021-12-23": "TBK",
        "2022-05-06": "K",
        "2023-02-25": "B",
        "2023-03-09": "B",
        "2023-10-19": "T",
        "2026-05-21": "B",
    },
    "huobi": {"2020-07-03": "B"},
    "cryptofacilities": {"2022-09-29": "D"},
    "kraken": {"2026-07-10": "TBK"},
    "gemini": {"2026-07-24": "TB"},
    "poloniex": {"2022-08-02": "TB"},
    "bybit": {"2023-04-05": "TBDL", "2025-02-26": "L"},
    "bybit-spot": {"2023-04-05": "TBK"},
    "delta": {"2020-10-14": "TD", "2023-04-01": "B"},
    "gate-io": {"2023-04-29": "TB", "2025-08-01": "B"},
    "okcoin": {"2020-02-13": "B", "2023-04-27": "TBK"},
    "woo-x": {"2026-06-29 22:02": "TBDK"},
    "bitget": {"2026-04-28": "TBK"},
    "bitget-futures": {"2026-04-28": "TBDK"},
    "hyperliquid": {"2026-06-17": "B"},
}

# From the instant on, in UTC, all messages come in the next wire format.
_FORMAT_SWITCHES: Mapping[str, tuple[str, ...]] = {
    "okex-futures": ("2021-12-23",),
    "okex-options": ("2021-12-23",),
    "okex-swap": ("2021-12-23",),
    "okex": ("2021-12-23",),
    "kraken": ("2026-07-10",),
    "bybit-spot": ("2023-04-05",),
    "gate-io": ("2023-04-29",),
    "gemini": ("2026-07-24",),
    "bitget": ("2026-04-28",),
    "bitget-futures": ("2026-04-28",),
    "okcoin": ("2023-04-27",),
}


def _data_types(letters: str) -> tuple[str, ...]:
    named = {_LETTERS[letter] for letter in letters}
    return tuple(name for name in PLAIN_TYPES if name in named)


def _instant_us(date: str) -> int:
    instant_us = parse_instant(date)
    assert instant_us is not None
    return instant_us


def _switches_us(exchange: str) -> dict[str, tuple[int, ...]]:
    switches: dict[str, tuple[int, ...]] = {}
    for date, letters in _SWITCHES.get(exchange, {}).items():
        for name in _data_types(letters):
            switches[name] = (*switches.get(name, ()), _instant_us(date))
    return switches


_MAPPER_VERSIONS: Mapping[str, int] = {}
"""Versions above the first. Raise one when a record of an old message changes by value: the lake
then prefers the records of the higher version. `tests/golden/digests.toml` shows such changes."""


def _read_exchanges(table: str) -> dict[str, Exchange]:
    exchanges = {}
    for entry in re.split(r"\n(?=\S)", table.strip()):
        name, letters, *channels = entry.split()
        exchanges[name] = Exchange(
            id=name,
            channels=tuple(channels),
            data_types=_data_types(letters),
            switches_us=_switches_us(name),
            format_switches_us=tuple(map(_instant_us, _FORMAT_SWITCHES.get(name, ()))),
            mapper_version=_MAPPER_VERSIONS.get(name, 1),
        )
    return exchanges


CATALOG: Mapping[str, Exchange] = _read_exchanges(_EXCHANGES)
"""Exchange id -> what is known about it without its mappers, in the order of the API."""
