"""Silver: one typed table per kind of event, deduplicated."""

from tardis_machine.lake.tables.bronze import BUS_COLUMNS
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

QUOTE_UNIT = "price unit of the symbol"
BASE_UNIT = "amount unit of the exchange"
RATE_UNIT = "fraction per funding period"
IV_UNIT = "as the exchange states it"

DISCONNECT = "disconnect"
"""Payload case of a disconnect."""

_DATE = Column("date", ColumnType.DATE, "UTC day of local_ts.")
_EXCHANGE = text("exchange", "Exchange id, for example binance-futures.")
_SYMBOL = text("symbol", "Instrument id as the exchange publishes it.")
_LOCAL_TS = time("local_ts", "Arrival time at the recorder (history) or at the producer (live).")
_ORDINAL = Column("ordinal", ColumnType.INT, "Sequence number among otherwise equal keys.")
_CAPTURE = text(
    "capture",
    "`history` for replays and archives, `recorded:<recorder>` for replays of own recordings, "
    "`partial:<start>` where they may lack what came before, `live:<producer>` for live events.",
)
_EVENT_TS = time("event_ts", "Timestamp of the exchange.")
_NAME = text("name", "Requested data type, for example book_snapshot_5_100ms.")
_CASE = text("payload_case", "Payload case of the event.")
_INTERVAL = number("interval", "Snapshot interval; 0: on every change.", "ms")

_IDENTITY = (_DATE, _EXCHANGE, _SYMBOL, _LOCAL_TS, _ORDINAL, _CAPTURE)
_PROVENANCE = (
    text("producer", "Id of the process that encoded the event."),
    text("origin", "Source of the event: realtime, replay or archive."),
    time("ingest_ts", "Time at which the producer encoded the event."),
    Column("time_digits", ColumnType.INT, "Bit mask of timestamps that had microseconds."),
    Column(
        "mapper_version",
        ColumnType.INT,
        "Version of the mappers that made the event; null, in rows of lakes before it: 1.",
    ),
)
PROVENANCE = tuple(column.name for column in _PROVENANCE)
"""Columns that say who made an event and when, not what it is."""

_EXECUTION = (
    text("id", "Id that the exchange assigned."),
    number("price", "Price.", QUOTE_UNIT),
    number("amount", "Quantity.", BASE_UNIT),
    text("side", "Taker's side: buy, sell or unknown; a liquidated short is a buy."),
)
_TOP_OF_BOOK = (
    number("bid_price", "Best bid.", QUOTE_UNIT),
    number("bid_amount", "Amount at the best bid.", BASE_UNIT),
    number("ask_price", "Best ask.", QUOTE_UNIT),
    number("ask_amount", "Amount at the best ask.", BASE_UNIT),
)
_ENTRIES = (
    Column("bid_entries", ColumnType.INT, "Length of the bid list if it differs from depth."),
    Column("ask_entries", ColumnType.INT, "Length of the ask list if it differs from depth."),
)


def _levels(removal: str = "") -> tuple[Column, ...]:
    return (
        Column("bid_prices", ColumnType.DOUBLES, "Bid prices, best first.", QUOTE_UNIT),
        Column("bid_amounts", ColumnType.DOUBLES, f"Amount per bid price{removal}.", BASE_UNIT),
        Column("ask_prices", ColumnType.DOUBLES, "Ask prices, best first.", QUOTE_UNIT),
        Column("ask_amounts", ColumnType.DOUBLES, f"Amount per ask price{removal}.", BASE_UNIT),
    )


def _events(
    name: str,
    meaning: str,
    cases: tuple[str, ...],
    payload: tuple[Column, ...],
    *,
    identity: tuple[Column, ...] = (),
    event_ts: tuple[Column, ...] = (_EVENT_TS,),
) -> Table:
    """Declare a table of events; identity columns first, because Delta keeps their statistics."""
    key = (*_IDENTITY, *identity)
    return Table(
        name=f"silver.{name}",
        meaning=meaning,
        columns=(*required(*key, *event_ts), *payload, *_PROVENANCE),
        key=tuple(column.name for column in key),
        cluster_by=("exchange", "symbol", "local_ts"),
        cases=cases,
    )


TRADES = _events("trades", "Trades, with the side of the taker.", ("trade",), _EXECUTION)
BOOK_CHANGES = _events(
    "book_changes",
    "Order book updates and snapshots.",
    ("book_change",),
    (
        Column("is_snapshot", ColumnType.BOOLEAN, "True: replaces the whole book."),
        *_levels("; 0 deletes the level"),
    ),
)
BOOK_SNAPSHOTS = _events(
    "book_snapshots",
    "Top levels of order books, computed from book changes, optionally grouped by price.",
    ("book_snapshot", "grouped_book_snapshot"),
    (
        Column("depth", ColumnType.INT, "Levels per side that were requested."),
        _INTERVAL,
        number("grouping", "Price step of a grouped snapshot.", QUOTE_UNIT),
        *_levels(),
        *_ENTRIES,
    ),
    identity=(_CASE, _NAME),
)
QUOTES = _events(
    "quotes",
    "Best bid and ask, computed from book changes.",
    ("quote",),
    (
        Column("depth", ColumnType.INT, "Levels per side that were requested."),
        _INTERVAL,
        *_TOP_OF_BOOK,
        *_ENTRIES,
    ),
    identity=(_NAME,),
)
BOOK_TICKERS = _events(
    "book_tickers", "Best bid and ask as published by the exchange.", ("book_ticker",), _TOP_OF_BOOK
)
DERIVATIVE_TICKERS = _events(
    "derivative_tickers",
    "Latest values of a derivative, one row per change.",
    ("derivative_ticker",),
    (
        number("last_price", "Price of the last trade.", QUOTE_UNIT),
        number("open_interest", "Open interest.", BASE_UNIT),
        number("funding_rate", "Rate that applies at funding_ts.", RATE_UNIT),
        time("funding_ts", "Time of the next funding."),
        number("predicted_funding_rate", "Predicted rate of the following period.", RATE_UNIT),
        number("index_price", "Price of the underlying index.", QUOTE_UNIT),
        number("mark_price", "Mark price.", QUOTE_UNIT),
    ),
)
LIQUIDATIONS = _events("liquidations", "Liquidation orders.", ("liquidation",), _EXECUTION)
OPTION_SUMMARIES = _events(
    "option_summaries",
    "Quotes, implied volatilities, greeks and underlying of options.",
    ("option_summary",),
    (
        text("option_type", "call or put."),
        number("strike_price", "Strike.", QUOTE_UNIT),
        time("expiration_ts", "Expiry."),
        number("best_bid_price", "Best bid.", QUOTE_UNIT),
        number("best_bid_amount", "Amount at the best bid.", BASE_UNIT),
        number("best_bid_iv", "Implied volatility of the best bid.", IV_UNIT),
        number("best_ask_price", "Best ask.", QUOTE_UNIT),
        number("best_ask_amount", "Amount at the best ask.", BASE_UNIT),
        number("best_ask_iv", "Implied volatility of the best ask.", IV_UNIT),
        number("last_price", "Price of the last trade.", QUOTE_UNIT),
        number("open_interest", "Open interest.", BASE_UNIT),
        number("mark_price", "Mark price.", QUOTE_UNIT),
        number("mark_iv", "Implied volatility of the mark price.", IV_UNIT),
        number("delta", "Change of the price per change of the underlying."),
        number("gamma", "Change of delta per change of the underlying."),
        number("vega", "Change of the price per change of volatility."),
        number("theta", "Change of the price per day."),
        number("rho", "Change of the price per change of the interest rate."),
        number("underlying_price", "Price of the underlying."),
        text("underlying_index", "Name of the underlying; may be empty."),
    ),
)
TRADE_BARS = _events(
    "trade_bars",
    "Trade bars as requested by the publisher; gold.bars is computed in the lake.",
    ("trade_bar",),
    (
        number(
            "interval",
            "Size of the bar: milliseconds, number of trades or volume, depending on kind.",
        ),
        text("kind", "What closes a bar: time, volume or tick."),
        number("open", "First price.", QUOTE_UNIT),
        number("high", "Highest price.", QUOTE_UNIT),
        number("low", "Lowest price.", QUOTE_UNIT),
        number("close", "Last price.", QUOTE_UNIT),
        number("volume", "Sum of amounts.", BASE_UNIT),
        number("buy_volume", "Sum of amounts of taker buys.", BASE_UNIT),
        number("sell_volume", "Sum of amounts of taker sells.", BASE_UNIT),
        count("trades", "Number of trades."),
        number("vwap", "Volume-weighted average price; null without volume.", QUOTE_UNIT),
        time("open_ts", "Time of the first trade."),
        time("close_ts", "Time of the last trade."),
    ),
    identity=(_NAME,),
)
CONTROL_EVENTS = _events(
    "control_events",
    "Errors and disconnects of feeds.",
    ("error", DISCONNECT),
    (
        text("details", "Text of an error."),
        count("subsequent_errors_count", "Errors since the last good message of the exchange."),
        Column("symbols", ColumnType.STRINGS, "Symbols of the lost connection; null: all."),
    ),
    identity=(_CASE,),
    event_ts=(),
)
QUARANTINE = Table(
    name="silver.quarantine",
    meaning="Events that failed validation, with the reason and their bytes.",
    columns=(
        *required(_DATE, text("reason", "Why the event was rejected."), _CASE),
        *BUS_COLUMNS,
        _EXCHANGE,
        _SYMBOL,
        _LOCAL_TS,
        Column("envelope", ColumnType.BINARY, "The bytes as read from the bus."),
    ),
    # Two streams of the same name, of two servers for example, have the same positions.
    key=("date", "bus", "stream", "partition", "position", "envelope"),
)
TOUCHED_MINUTES = Table(
    name="silver.touched_minutes",
    meaning="Minutes in which Silver may have changed, for which Gold is recomputed.",
    columns=required(
        _DATE,
        _CASE,
        _EXCHANGE,
        _SYMBOL,
        time("minute", "Start of the minute of event_ts; of local_ts for control events."),
    ),
    key=(),
)

EVENT_TABLES = (
    TRADES,
    BOOK_CHANGES,
    BOOK_SNAPSHOTS,
    QUOTES,
    BOOK_TICKERS,
    DERIVATIVE_TICKERS,
    LIQUIDATIONS,
    OPTION_SUMMARIES,
    TRADE_BARS,
    CONTROL_EVENTS,
)
"""The tables of events; each payload case is in exactly one of them."""

QUOTE_TABLES = (QUOTES, BOOK_TICKERS, BOOK_SNAPSHOTS)
"""Sources of best bid and ask for Gold; of two of the same resolution, the first is used."""

QUOTE_CASES = tuple(case for table in QUOTE_TABLES for case in table.cases)
"""The payload cases of those tables."""
