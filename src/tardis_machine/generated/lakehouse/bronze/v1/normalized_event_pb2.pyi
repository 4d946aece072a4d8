import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Origin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORIGIN_UNSPECIFIED: _ClassVar[Origin]
    ORIGIN_REALTIME: _ClassVar[Origin]
    ORIGIN_REPLAY: _ClassVar[Origin]
    ORIGIN_ARCHIVE: _ClassVar[Origin]

class Side(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIDE_UNSPECIFIED: _ClassVar[Side]
    SIDE_BUY: _ClassVar[Side]
    SIDE_SELL: _ClassVar[Side]
    SIDE_UNKNOWN: _ClassVar[Side]

class OptionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPTION_TYPE_UNSPECIFIED: _ClassVar[OptionType]
    OPTION_TYPE_CALL: _ClassVar[OptionType]
    OPTION_TYPE_PUT: _ClassVar[OptionType]

class BarKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BAR_KIND_UNSPECIFIED: _ClassVar[BarKind]
    BAR_KIND_TIME: _ClassVar[BarKind]
    BAR_KIND_VOLUME: _ClassVar[BarKind]
    BAR_KIND_TICK: _ClassVar[BarKind]
ORIGIN_UNSPECIFIED: Origin
ORIGIN_REALTIME: Origin
ORIGIN_REPLAY: Origin
ORIGIN_ARCHIVE: Origin
SIDE_UNSPECIFIED: Side
SIDE_BUY: Side
SIDE_SELL: Side
SIDE_UNKNOWN: Side
OPTION_TYPE_UNSPECIFIED: OptionType
OPTION_TYPE_CALL: OptionType
OPTION_TYPE_PUT: OptionType
BAR_KIND_UNSPECIFIED: BarKind
BAR_KIND_TIME: BarKind
BAR_KIND_VOLUME: BarKind
BAR_KIND_TICK: BarKind

class NormalizedEvent(_message.Message):
    __slots__ = ("source", "exchange", "symbol", "local_ts", "ingest_ts", "origin", "ordinal", "time_digits", "meta", "state_from", "mapper_version", "recorder", "trade", "book_change", "book_snapshot", "grouped_book_snapshot", "quote", "book_ticker", "derivative_ticker", "liquidation", "option_summary", "trade_bar", "error", "disconnect")
    class MetaEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    LOCAL_TS_FIELD_NUMBER: _ClassVar[int]
    INGEST_TS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    TIME_DIGITS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    STATE_FROM_FIELD_NUMBER: _ClassVar[int]
    MAPPER_VERSION_FIELD_NUMBER: _ClassVar[int]
    RECORDER_FIELD_NUMBER: _ClassVar[int]
    TRADE_FIELD_NUMBER: _ClassVar[int]
    BOOK_CHANGE_FIELD_NUMBER: _ClassVar[int]
    BOOK_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    GROUPED_BOOK_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    BOOK_TICKER_FIELD_NUMBER: _ClassVar[int]
    DERIVATIVE_TICKER_FIELD_NUMBER: _ClassVar[int]
    LIQUIDATION_FIELD_NUMBER: _ClassVar[int]
    OPTION_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TRADE_BAR_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    source: str
    exchange: str
    symbol: str
    local_ts: _timestamp_pb2.Timestamp
    ingest_ts: _timestamp_pb2.Timestamp
    origin: Origin
    ordinal: int
    time_digits: int
    meta: _containers.ScalarMap[str, str]
    state_from: _timestamp_pb2.Timestamp
    mapper_version: int
    recorder: str
    trade: Trade
    book_change: BookChange
    book_snapshot: BookSnapshot
    grouped_book_snapshot: BookSnapshot
    quote: BookSnapshot
    book_ticker: BookTicker
    derivative_ticker: DerivativeTicker
    liquidation: Liquidation
    option_summary: OptionSummary
    trade_bar: TradeBar
    error: ControlError
    disconnect: ControlDisconnect
    def __init__(self, source: _Optional[str] = ..., exchange: _Optional[str] = ..., symbol: _Optional[str] = ..., local_ts: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ingest_ts: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., origin: _Optional[_Union[Origin, str]] = ..., ordinal: _Optional[int] = ..., time_digits: _Optional[int] = ..., meta: _Optional[_Mapping[str, str]] = ..., state_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., mapper_version: _Optional[int] = ..., recorder: _Optional[str] = ..., trade: _Optional[_Union[Trade, _Mapping]] = ..., book_change: _Optional[_Union[BookChange, _Mapping]] = ..., book_snapshot: _Optional[_Union[BookSnapshot, _Mapping]] = ..., grouped_book_snapshot: _Optional[_Union[BookSnapshot, _Mapping]] = ..., quote: _Optional[_Union[BookSnapshot, _Mapping]] = ..., book_ticker: _Optional[_Union[BookTicker, _Mapping]] = ..., derivative_ticker: _Optional[_Union[DerivativeTicker, _Mapping]] = ..., liquidation: _Optional[_Union[Liquidation, _Mapping]] = ..., option_summary: _Optional[_Union[OptionSummary, _Mapping]] = ..., trade_bar: _Optional[_Union[TradeBar, _Mapping]] = ..., error: _Optional[_Union[ControlError, _Mapping]] = ..., disconnect: _Optional[_Union[ControlDisconnect, _Mapping]] = ...) -> None: ...

class Trade(_message.Message):
    __slots__ = ("timestamp", "id", "price", "amount", "side")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    id: str
    price: float
    amount: float
    side: Side
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., id: _Optional[str] = ..., price: _Optional[float] = ..., amount: _Optional[float] = ..., side: _Optional[_Union[Side, str]] = ...) -> None: ...

class BookChange(_message.Message):
    __slots__ = ("timestamp", "is_snapshot", "bid_prices", "bid_amounts", "ask_prices", "ask_amounts")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    IS_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    BID_PRICES_FIELD_NUMBER: _ClassVar[int]
    BID_AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    ASK_PRICES_FIELD_NUMBER: _ClassVar[int]
    ASK_AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    is_snapshot: bool
    bid_prices: _containers.RepeatedScalarFieldContainer[float]
    bid_amounts: _containers.RepeatedScalarFieldContainer[float]
    ask_prices: _containers.RepeatedScalarFieldContainer[float]
    ask_amounts: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., is_snapshot: _Optional[bool] = ..., bid_prices: _Optional[_Iterable[float]] = ..., bid_amounts: _Optional[_Iterable[float]] = ..., ask_prices: _Optional[_Iterable[float]] = ..., ask_amounts: _Optional[_Iterable[float]] = ...) -> None: ...

class BookSnapshot(_message.Message):
    __slots__ = ("timestamp", "name", "depth", "interval", "grouping", "bid_prices", "bid_amounts", "ask_prices", "ask_amounts", "bid_entries", "ask_entries")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    GROUPING_FIELD_NUMBER: _ClassVar[int]
    BID_PRICES_FIELD_NUMBER: _ClassVar[int]
    BID_AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    ASK_PRICES_FIELD_NUMBER: _ClassVar[int]
    ASK_AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    BID_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ASK_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    name: str
    depth: int
    interval: float
    grouping: float
    bid_prices: _containers.RepeatedScalarFieldContainer[float]
    bid_amounts: _containers.RepeatedScalarFieldContainer[float]
    ask_prices: _containers.RepeatedScalarFieldContainer[float]
    ask_amounts: _containers.RepeatedScalarFieldContainer[float]
    bid_entries: int
    ask_entries: int
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., name: _Optional[str] = ..., depth: _Optional[int] = ..., interval: _Optional[float] = ..., grouping: _Optional[float] = ..., bid_prices: _Optional[_Iterable[float]] = ..., bid_amounts: _Optional[_Iterable[float]] = ..., ask_prices: _Optional[_Iterable[float]] = ..., ask_amounts: _Optional[_Iterable[float]] = ..., bid_entries: _Optional[int] = ..., ask_entries: _Optional[int] = ...) -> None: ...

class BookTicker(_message.Message):
    __slots__ = ("timestamp", "ask_amount", "ask_price", "bid_price", "bid_amount")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ASK_AMOUNT_FIELD_NUMBER: _ClassVar[int]
    ASK_PRICE_FIELD_NUMBER: _ClassVar[int]
    BID_PRICE_FIELD_NUMBER: _ClassVar[int]
    BID_AMOUNT_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    ask_amount: float
    ask_price: float
    bid_price: float
    bid_amount: float
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ask_amount: _Optional[float] = ..., ask_price: _Optional[float] = ..., bid_price: _Optional[float] = ..., bid_amount: _Optional[float] = ...) -> None: ...

class DerivativeTicker(_message.Message):
    __slots__ = ("timestamp", "last_price", "open_interest", "funding_rate", "funding_timestamp", "predicted_funding_rate", "index_price", "mark_price")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LAST_PRICE_FIELD_NUMBER: _ClassVar[int]
    OPEN_INTEREST_FIELD_NUMBER: _ClassVar[int]
    FUNDING_RATE_FIELD_NUMBER: _ClassVar[int]
    FUNDING_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_FUNDING_RATE_FIELD_NUMBER: _ClassVar[int]
    INDEX_PRICE_FIELD_NUMBER: _ClassVar[int]
    MARK_PRICE_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    last_price: float
    open_interest: float
    funding_rate: float
    funding_timestamp: _timestamp_pb2.Timestamp
    predicted_funding_rate: float
    index_price: float
    mark_price: float
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_price: _Optional[float] = ..., open_interest: _Optional[float] = ..., funding_rate: _Optional[float] = ..., funding_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., predicted_funding_rate: _Optional[float] = ..., index_price: _Optional[float] = ..., mark_price: _Optional[float] = ...) -> None: ...

class Liquidation(_message.Message):
    __slots__ = ("timestamp", "id", "price", "amount", "side")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    id: str
    price: float
    amount: float
    side: Side
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., id: _Optional[str] = ..., price: _Optional[float] = ..., amount: _Optional[float] = ..., side: _Optional[_Union[Side, str]] = ...) -> None: ...

class OptionSummary(_message.Message):
    __slots__ = ("timestamp", "option_type", "strike_price", "expiration_date", "best_bid_price", "best_bid_amount", "best_bid_iv", "best_ask_price", "best_ask_amount", "best_ask_iv", "last_price", "open_interest", "mark_price", "mark_iv", "delta", "gamma", "vega", "theta", "rho", "underlying_price", "underlying_index")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    OPTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    STRIKE_PRICE_FIELD_NUMBER: _ClassVar[int]
    EXPIRATION_DATE_FIELD_NUMBER: _ClassVar[int]
    BEST_BID_PRICE_FIELD_NUMBER: _ClassVar[int]
    BEST_BID_AMOUNT_FIELD_NUMBER: _ClassVar[int]
    BEST_BID_IV_FIELD_NUMBER: _ClassVar[int]
    BEST_ASK_PRICE_FIELD_NUMBER: _ClassVar[int]
    BEST_ASK_AMOUNT_FIELD_NUMBER: _ClassVar[int]
    BEST_ASK_IV_FIELD_NUMBER: _ClassVar[int]
    LAST_PRICE_FIELD_NUMBER: _ClassVar[int]
    OPEN_INTEREST_FIELD_NUMBER: _ClassVar[int]
    MARK_PRICE_FIELD_NUMBER: _ClassVar[int]
    MARK_IV_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    VEGA_FIELD_NUMBER: _ClassVar[int]
    THETA_FIELD_NUMBER: _ClassVar[int]
    RHO_FIELD_NUMBER: _ClassVar[int]
    UNDERLYING_PRICE_FIELD_NUMBER: _ClassVar[int]
    UNDERLYING_INDEX_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    option_type: OptionType
    strike_price: float
    expiration_date: _timestamp_pb2.Timestamp
    best_bid_price: float
    best_bid_amount: float
    best_bid_iv: float
    best_ask_price: float
    best_ask_amount: float
    best_ask_iv: float
    last_price: float
    open_interest: float
    mark_price: float
    mark_iv: float
    delta: float
    gamma: float
    vega: float
    theta: float
    rho: float
    underlying_price: float
    underlying_index: str
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., option_type: _Optional[_Union[OptionType, str]] = ..., strike_price: _Optional[float] = ..., expiration_date: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., best_bid_price: _Optional[float] = ..., best_bid_amount: _Optional[float] = ..., best_bid_iv: _Optional[float] = ..., best_ask_price: _Optional[float] = ..., best_ask_amount: _Optional[float] = ..., best_ask_iv: _Optional[float] = ..., last_price: _Optional[float] = ..., open_interest: _Optional[float] = ..., mark_price: _Optional[float] = ..., mark_iv: _Optional[float] = ..., delta: _Optional[float] = ..., gamma: _Optional[float] = ..., vega: _Optional[float] = ..., theta: _Optional[float] = ..., rho: _Optional[float] = ..., underlying_price: _Optional[float] = ..., underlying_index: _Optional[str] = ...) -> None: ...

class TradeBar(_message.Message):
    __slots__ = ("timestamp", "name", "interval", "kind", "open", "high", "low", "close", "volume", "buy_volume", "sell_volume", "trades", "vwap", "open_timestamp", "close_timestamp")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    BUY_VOLUME_FIELD_NUMBER: _ClassVar[int]
    SELL_VOLUME_FIELD_NUMBER: _ClassVar[int]
    TRADES_FIELD_NUMBER: _ClassVar[int]
    VWAP_FIELD_NUMBER: _ClassVar[int]
    OPEN_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CLOSE_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    name: str
    interval: float
    kind: BarKind
    open: float
    high: float
    low: float
    close: float
    volume: float
    buy_volume: float
    sell_volume: float
    trades: int
    vwap: float
    open_timestamp: _timestamp_pb2.Timestamp
    close_timestamp: _timestamp_pb2.Timestamp
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., name: _Optional[str] = ..., interval: _Optional[float] = ..., kind: _Optional[_Union[BarKind, str]] = ..., open: _Optional[float] = ..., high: _Optional[float] = ..., low: _Optional[float] = ..., close: _Optional[float] = ..., volume: _Optional[float] = ..., buy_volume: _Optional[float] = ..., sell_volume: _Optional[float] = ..., trades: _Optional[int] = ..., vwap: _Optional[float] = ..., open_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., close_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ControlError(_message.Message):
    __slots__ = ("details", "subsequent_errors_count")
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    SUBSEQUENT_ERRORS_COUNT_FIELD_NUMBER: _ClassVar[int]
    details: str
    subsequent_errors_count: int
    def __init__(self, details: _Optional[str] = ..., subsequent_errors_count: _Optional[int] = ...) -> None: ...

class ControlDisconnect(_message.Message):
    __slots__ = ("symbols",)
    SYMBOLS_FIELD_NUMBER: _ClassVar[int]
    symbols: SymbolList
    def __init__(self, symbols: _Optional[_Union[SymbolList, _Mapping]] = ...) -> None: ...

class SymbolList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...
