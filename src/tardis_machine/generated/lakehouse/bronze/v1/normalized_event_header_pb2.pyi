import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NormalizedEventHeader(_message.Message):
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
    origin: int
    ordinal: int
    time_digits: int
    meta: _containers.ScalarMap[str, str]
    state_from: _timestamp_pb2.Timestamp
    mapper_version: int
    recorder: str
    trade: bytes
    book_change: bytes
    book_snapshot: bytes
    grouped_book_snapshot: bytes
    quote: bytes
    book_ticker: bytes
    derivative_ticker: bytes
    liquidation: bytes
    option_summary: bytes
    trade_bar: bytes
    error: bytes
    disconnect: bytes
    def __init__(self, source: _Optional[str] = ..., exchange: _Optional[str] = ..., symbol: _Optional[str] = ..., local_ts: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ingest_ts: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., origin: _Optional[int] = ..., ordinal: _Optional[int] = ..., time_digits: _Optional[int] = ..., meta: _Optional[_Mapping[str, str]] = ..., state_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., mapper_version: _Optional[int] = ..., recorder: _Optional[str] = ..., trade: _Optional[bytes] = ..., book_change: _Optional[bytes] = ..., book_snapshot: _Optional[bytes] = ..., grouped_book_snapshot: _Optional[bytes] = ..., quote: _Optional[bytes] = ..., book_ticker: _Optional[bytes] = ..., derivative_ticker: _Optional[bytes] = ..., liquidation: _Optional[bytes] = ..., option_summary: _Optional[bytes] = ..., trade_bar: _Optional[bytes] = ..., error: _Optional[bytes] = ..., disconnect: _Optional[bytes] = ...) -> None: ...
