"""Topics of all markets, `<channel>.<symbol>`, and the wire formats whose tag they are."""

from typing import Any

from msgspec import Struct

from tardis_machine.exchanges.spec import WireFormat
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.model.requests import Filter


class Topic(Struct, gc=False):
    """The part of a message that tells channels apart; answers to requests have none."""

    topic: str | None = None


TOPIC_TAG = StartTag(b'{"topic":"', Topic, lambda message: message.topic)


def locate(topic: str) -> Filter:
    """Return channel and symbol: `orderbook.50` and `BTCUSD` of `orderbook.50.BTCUSD`."""
    channel, _, symbol = topic.rpartition(".")
    # Before v5 some topics named the interval of their messages: `instrument_info.100ms.BTCUSD`.
    name, _, interval = channel.rpartition(".")
    if interval.endswith("ms"):
        channel = name
    return Filter(channel, (symbol,)) if channel else Filter(topic)


def read_topics(message: Any) -> list[Filter] | None:
    """Read `{"op": "subscribe", "args": ["orderbook.50.BTCUSDT", "trade.BTCUSD"]}`."""
    if not isinstance(message, dict) or message.get("op") != "subscribe":
        return None
    parts = [topic.rpartition(".") for topic in message["args"]]
    return [Filter(channel, (symbol,)) for channel, _, symbol in parts]


def read_spot_topics(message: Any) -> list[Filter] | None:
    """Read the same message as clients of spot replays know it: channels end at the first dot."""
    filters = read_topics(message)
    if filters is None:
        return None
    return [Filter(entry.channel.partition(".")[0], entry.symbols) for entry in filters]


DERIVATIVES_FORMAT = WireFormat(tag=TOPIC_TAG, locate=locate, read_subscribe=read_topics)
SPOT_FORMAT = WireFormat(tag=TOPIC_TAG, locate=locate, read_subscribe=read_spot_topics)
