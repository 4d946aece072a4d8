"""Gold: aggregates over Silver, always equal to one computation over all of Silver."""

from tardis_machine.lake.tables.columns import (
    Column,
    ColumnType,
    Table,
    count,
    number,
    required,
    text,
    time,
)
from tardis_machine.lake.tables.silver import BASE_UNIT, QUOTE_UNIT, RATE_UNIT

_NOTIONAL_UNIT = "quote currency of the symbol"
_EXCHANGE = text("exchange", "Exchange id.")
_SYMBOL = text("symbol", "Instrument id as the exchange publishes it.")
_MINUTE = time("minute", "Start of the minute.")


def _date(of: str) -> Column:
    return Column("date", ColumnType.DATE, f"UTC day of {of}.")


BARS = Table(
    name="gold.bars",
    meaning="OHLCV bars by exchange time; intervals without trades have no bar.",
    columns=(
        *required(
            _date("open_ts"),
            _EXCHANGE,
            _SYMBOL,
            text("interval", "Length of the bar: 1s, 1m, 5m, 1h or 1d."),
            time("open_ts", "Start of the bar."),
        ),
        number("open", "First price.", QUOTE_UNIT),
        number("high", "Highest price.", QUOTE_UNIT),
        number("low", "Lowest price.", QUOTE_UNIT),
        number("close", "Last price.", QUOTE_UNIT),
        number("volume", "Sum of amounts.", BASE_UNIT),
        number("buy_volume", "Sum of amounts of taker buys.", BASE_UNIT),
        number("sell_volume", "Sum of amounts of taker sells.", BASE_UNIT),
        number(
            "notional",
            "Worth of the trades by silver.instruments; null without a contract size, price × "
            "amount for symbols that are not in it.",
            _NOTIONAL_UNIT,
        ),
        number("vwap", "Volume-weighted average price; null without volume.", QUOTE_UNIT),
        count("trades", "Number of trades."),
    ),
    key=("date", "exchange", "symbol", "interval", "open_ts"),
    partition_by=("date", "interval"),
    cluster_by=("exchange", "symbol", "open_ts"),
)
QUOTES_1S = Table(
    name="gold.quotes_1s",
    meaning=(
        "The best bid and ask that stood at the end of every second with a quote, from the source "
        "with the shortest interval in that second. A quote per interval counts for the second "
        "that its interval ends with."
    ),
    columns=(
        *required(_date("second"), _EXCHANGE, _SYMBOL, time("second", "Start of the second.")),
        text("basis", "Source table: quotes, book_tickers or book_snapshots."),
        number("bid_price", "Best bid.", QUOTE_UNIT),
        number("bid_amount", "Amount at the best bid.", BASE_UNIT),
        number("ask_price", "Best ask.", QUOTE_UNIT),
        number("ask_amount", "Amount at the best ask.", BASE_UNIT),
        number("spread", "Best ask minus best bid.", QUOTE_UNIT),
        number("mid", "Mean of best bid and ask.", QUOTE_UNIT),
        number("microprice", "Mid price weighted by the amounts of the opposite side.", QUOTE_UNIT),
        count("updates", "Number of quotes in the second."),
    ),
    key=("date", "exchange", "symbol", "second"),
    cluster_by=("exchange", "symbol", "second"),
)
FUNDING = Table(
    name="gold.funding",
    meaning="The last funding rate published for every funding event.",
    columns=(
        *required(
            _date("funding_ts"), _EXCHANGE, _SYMBOL, time("funding_ts", "Time of the funding.")
        ),
        number("funding_rate", "Rate that applies at funding_ts.", RATE_UNIT),
        number("predicted_funding_rate", "Predicted rate of the following period.", RATE_UNIT),
        number("mark_price", "Mark price at as_of_ts.", QUOTE_UNIT),
        number("index_price", "Price of the underlying index at as_of_ts.", QUOTE_UNIT),
        number("open_interest", "Open interest at as_of_ts.", BASE_UNIT),
        time("as_of_ts", "Exchange time of the last published rate."),
        time("as_of_local_ts", "Arrival time of the last published rate."),
    ),
    key=("date", "exchange", "symbol", "funding_ts"),
    cluster_by=("exchange", "symbol", "funding_ts"),
)
LIQUIDATIONS_1M = Table(
    name="gold.liquidations_1m",
    meaning="Liquidations per minute; minutes without any have no row.",
    columns=(
        *required(_date("minute"), _EXCHANGE, _SYMBOL, _MINUTE),
        count("buys", "Liquidated short positions."),
        count("sells", "Liquidated long positions."),
        number("buy_volume", "Sum of amounts of buys.", BASE_UNIT),
        number("sell_volume", "Sum of amounts of sells.", BASE_UNIT),
        number("buy_notional", "Worth of buys; null as in gold.bars.", _NOTIONAL_UNIT),
        number("sell_notional", "Worth of sells; null as in gold.bars.", _NOTIONAL_UNIT),
    ),
    key=("date", "exchange", "symbol", "minute"),
    cluster_by=("exchange", "symbol", "minute"),
)
CROSS_EXCHANGE_1M = Table(
    name="gold.cross_exchange_1m",
    meaning=(
        "Price dispersion of one market between exchanges, per minute: instruments of the same "
        "base, quote and kind; futures also of the same expiry."
    ),
    columns=(
        *required(
            _date("minute"),
            text("market", "Base, quote and kind: BTC/USDT perpetual; and the day of expiry."),
            _MINUTE,
        ),
        count(
            "venues",
            "Number of exchange and symbol pairs with a trade in the minute; at least two.",
        ),
        number("mean_price", "Mean of their last prices.", QUOTE_UNIT),
        number("min_price", "Lowest last price.", QUOTE_UNIT),
        number("max_price", "Highest last price.", QUOTE_UNIT),
        number("dispersion_bps", "Highest minus lowest price, relative to the mean.", "1e-4"),
        text("cheapest", "Exchange with the lowest last price."),
        text("dearest", "Exchange with the highest last price."),
        text("base", "What is bought and sold; prices are for one unit of it."),
        text("quote", "Currency of prices."),
        text("kind", "spot, perpetual or future."),
    ),
    key=("date", "market", "minute"),
    cluster_by=("market", "minute"),
)
COVERAGE = Table(
    name="gold.coverage",
    meaning="Completeness of each capture per minute, and which capture the Gold tables use.",
    columns=(
        *required(
            _date("minute"),
            _EXCHANGE,
            _SYMBOL,
            text("data_type", "Payload case, or the requested data type of computed records."),
            time("minute", "Start of the minute of event_ts."),
            text(
                "capture",
                "`history`, `recorded:<recorder>`, `live:<producer>`, or `partial:<start>` with "
                "the recorder, if any.",
            ),
        ),
        count("events", "Number of events with an event_ts in the minute."),
        count("silent_seconds", "Seconds of the minute without an event.", "s"),
        count("disconnects", "Number of disconnects of the capture in the minute."),
        time("first_ts", "Earliest event_ts."),
        time("last_ts", "Latest event_ts."),
        Column(
            "is_preferred",
            ColumnType.BOOLEAN,
            "True: Gold uses it. The most events; partial captures only if there is no other.",
        ),
    ),
    key=("date", "exchange", "symbol", "data_type", "minute", "capture"),
    cluster_by=("exchange", "symbol", "minute"),
)

GOLD_TABLES = (BARS, QUOTES_1S, FUNDING, LIQUIDATIONS_1M, CROSS_EXCHANGE_1M, COVERAGE)
