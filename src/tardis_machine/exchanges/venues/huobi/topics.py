"""Names of Huobi's messages: `market.<symbol>.<channel>…` and `public.<symbol>.<channel>`.

What was asked for over the socket comes under the same name as what was subscribed to: its tag
begins with a mark.
"""

from typing import Any

from msgspec import Struct

from tardis_machine.exchanges.spec import WireFormat
from tardis_machine.exchanges.tags import SEPARATOR, StartTag
from tardis_machine.model.requests import Filter

REPLY = f"rep{SEPARATOR}"
"""Before the name of what was asked for."""


class Header(Struct, gc=False):
    """The parts of a message that tell channels apart: pushes, replies and notifications."""

    ch: str | None = None
    rep: str | None = None
    op: str | None = None
    topic: str | None = None


def read_tag(header: Header) -> str | None:
    """Return the name of a message; acknowledgements have none."""
    if header.ch is not None:
        return header.ch
    if header.rep is not None:
        return REPLY + header.rep
    return header.topic if header.op == "notify" else None


def locate(tag: str) -> Filter:
    """Return channel and symbol of a name."""
    _, _, rest = tag.partition(".")
    symbol, _, channel = rest.partition(".")
    return Filter(channel.partition(".")[0], (symbol,))


def channel_of(tag: str) -> str:
    """Return the channel of a name."""
    return locate(tag).channel


def symbol_of(tag: str) -> str:
    """Return the symbol of a name as it was sent."""
    [symbol] = locate(tag).symbols or ("",)
    return symbol


def native_symbol(symbol: str) -> str:
    """Return a symbol in the case of its market: `BTC_CW`, `BTC-USDT`, but `btcusdt`."""
    return symbol.upper() if "_" in symbol or "-" in symbol else symbol.lower()


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"id": "1", "sub": "market.btcusdt.trade.detail"}`."""
    if "sub" not in message:
        return None
    _, symbol, channel, *_ = message["sub"].split(".")
    return [Filter(channel, (symbol,))]


FORMAT = WireFormat(
    tag=StartTag(b'{"ch":"', Header, read_tag), locate=locate, read_subscribe=read_subscribe
)
