"""Control records: what happened to a feed, beside its market data."""

import msgspec
from msgspec import UNSET, UnsetType

from tardis_machine.model.records import Record


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
