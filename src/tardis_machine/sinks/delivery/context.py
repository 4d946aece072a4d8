"""What the chunks of one stream share; it is written with each of them."""

from functools import lru_cache

import msgspec

from tardis_machine.bronze.content import Content
from tardis_machine.bronze.series import Origin


class StreamContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who published a stream, and how."""

    stream: str
    """Tells the stream from others of the same log."""
    producer_id: str
    origin: Origin
    meta: dict[str, str]
    contents: dict[str, Content] = {}
    """How the records were made, by exchange, where there is something to say."""
    bus: str = ""
    """Its events are for this bus alone and keep their destinations; empty: for all, routed."""


pack_context = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(StreamContext)


@lru_cache(maxsize=1024)
def parse_context(packed: bytes) -> StreamContext:
    """Return the context of a chunk; a stream has the same bytes in all of its chunks."""
    return _decoder.decode(packed)
