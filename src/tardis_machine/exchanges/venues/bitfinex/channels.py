"""What Bitfinex messages are about: arrays that begin with the number of a subscription.

`{"event":"subscribed",…}` says what a number stands for. Later recordings add channel and symbol at
the end of each array instead.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tardis_machine.exchanges.spec import WireFormat
from tardis_machine.exchanges.tags import SEPARATOR
from tardis_machine.model.requests import Filter

LIQUIDATIONS = "liquidations"
GLOBAL = "global"
"""What stands in place of the symbol of all liquidations."""

NUMBER = "#"
"""Before the number of a subscription, in a tag."""
SUBSCRIBED = f"subscribed{SEPARATOR}"
"""Before the tag that an acknowledgement announces."""

HEARTBEAT = "hb"
"""The tag of arrays that say nothing, whatever they are about."""

DERIVATIVE_KEY, LIQUIDATIONS_KEY = "deriv:t", "liq:global"
BOOK_CHANNELS = {"P0": "book", "R0": "raw_book"}


class Subscribed(Struct, rename={"number": "chanId"}):
    """The acknowledgement of a subscription, or any other event."""

    event: str | None = None
    channel: str | None = None
    number: int | None = None
    pair: str | None = None
    prec: str | None = None
    key: str | None = None


_any_message = msgspec.json.Decoder(list[Raw] | dict[str, Raw])
_subscribed = msgspec.json.Decoder(Subscribed)


class ChannelTag:
    """The tag is channel and symbol, at the end of the array or announced for its number."""

    def keys(self, lines: Sequence[bytes], start: int) -> list[bytes]:
        """Cut each message where its last two texts start, or behind its number."""
        return [self._cut(line, start) for line in lines]

    def _cut(self, line: bytes, start: int) -> bytes:
        end = line.find(b",", start) + 1
        if line.startswith(b'"hb"', end):
            return b"hb"
        if line.endswith(b'"]'):
            return line[line.rfind(b',"', start, line.rfind(b',"')) :]
        # Behind a blank may be a heartbeat.
        return line[start : end + 1] if line.startswith(b" ", end) else line[start:end]

    def read(self, message: bytes) -> str | None:
        """Decode a message; most events have no tag."""
        decoded = _any_message.decode(message)
        if isinstance(decoded, dict):
            announced = self.announced(message)
            return None if announced is None else SUBSCRIBED + announced[1]
        if len(decoded) < 2:
            return None
        if bytes(decoded[1]) == b'"hb"':
            return HEARTBEAT
        texts = [msgspec.json.decode(item) for item in decoded[-2:]]
        if all(isinstance(text, str) for text in texts):
            return SEPARATOR.join(texts)
        return NUMBER + bytes(decoded[0]).decode()

    def key_of(self, tag: str) -> bytes:
        """Return how an array begins with this number, or ends with these texts."""
        if tag == HEARTBEAT:
            return b"hb"
        if tag.startswith(NUMBER):
            return f"[{tag.removeprefix(NUMBER)},".encode()
        channel, _, symbol = tag.partition(SEPARATOR)
        return f',"{channel}","{symbol}"]'.encode()

    def announced(self, message: bytes) -> tuple[str, str] | None:
        """Return the number of a subscription, and the channel and symbol it stands for."""
        if not message.startswith(b"{"):
            return None
        event = _subscribed.decode(message)
        tag = announced_tag(event) if event.event == "subscribed" else None
        return None if tag is None else (f"{NUMBER}{event.number}", tag)


def announced_tag(event: Subscribed) -> str | None:
    """Return what a subscription is about; None for what no channel of recordings has."""
    channel, symbol = event.channel, event.pair
    if channel == "book":
        channel = BOOK_CHANNELS.get(event.prec or "")
    elif channel == "status":
        key = event.key or ""
        if key == LIQUIDATIONS_KEY:
            channel, symbol = LIQUIDATIONS, GLOBAL
        elif key.startswith(DERIVATIVE_KEY):
            symbol = key.removeprefix(DERIVATIVE_KEY)
    return None if channel is None or symbol is None else f"{channel}{SEPARATOR}{symbol}"


def locate(tag: str) -> Filter:
    """Return channel and symbol; an acknowledgement belongs to what it announces."""
    channel, _, symbol = tag.removeprefix(SUBSCRIBED).partition(SEPARATOR)
    return Filter(channel, None if channel == LIQUIDATIONS else (symbol,))


def symbol_of(tag: str, channel: str) -> str | None:
    """Return the symbol of a tag if it is of this channel."""
    found, _, symbol = tag.partition(SEPARATOR)
    return symbol if found == channel else None


def read_subscribe(message: Any) -> list[Filter] | None:
    """Take any message for a subscription to everything.

    Numbers mean nothing without the acknowledgements of all of them, which have no channel.
    """
    return []


FORMAT = WireFormat(
    tag=ChannelTag(), locate=locate, read_subscribe=read_subscribe, replays_whole_feed=True
)
