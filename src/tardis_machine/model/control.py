"""Control records: what happened to a feed, beside its market data."""

from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from tardis_machine.model.records import (
    BookChange,
    BookSnapshot,
    BookTicker,
    DerivativeTicker,
    Liquidation,
    OptionSummary,
    Record,
    Trade,
    TradeBar,
)


class Disconnect(Record, frozen=True, kw_only=True, tag="disconnect"):
    """The recorder (or this process) lost its connection to an exchange."""

    exchange: str
    local_timestamp: str
    symbols: list[str] | UnsetType = UNSET


class FeedError(Record, frozen=True, kw_only=True, tag="error"):
    """A live feed failed and is being restarted."""

    exchange: str
    local_timestamp: str
    details: str
    subsequent_errors_count: int = msgspec.field(name="subSequentErrorsCount")


NormalizedRecord: TypeAlias = (
    Trade
    | BookChange
    | DerivativeTicker
    | Liquidation
    | OptionSummary
    | BookTicker
    | BookSnapshot
    | TradeBar
    | Disconnect
    | FeedError
)
"""Everything that can stand on one line of a normalized response."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[NormalizedRecord] = msgspec.json.Decoder(NormalizedRecord)

encode_lines = _encoder.encode_lines
"""Write records as NDJSON, one line feed after each."""

decode_lines = _decoder.decode_lines
"""Read NDJSON written by `encode_lines` or by any compatible server."""
