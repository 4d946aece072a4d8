"""Records as NDJSON, the lines of normalized responses."""

from typing import TypeAlias

import msgspec

from tardis_machine.model.compiled import compiled_module
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.records import (
    BookChange,
    BookSnapshot,
    BookTicker,
    DerivativeTicker,
    Liquidation,
    OptionSummary,
    Trade,
    TradeBar,
)

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

_compiled = compiled_module("tardis_machine.model.compiled_ndjson")
encode_lines = _encoder.encode_lines if _compiled is None else _compiled.line_encoder(_encoder)
"""Write records as NDJSON, one line feed after each."""

decode_lines = _decoder.decode_lines
"""Read NDJSON written by `encode_lines` or by any compatible server."""
