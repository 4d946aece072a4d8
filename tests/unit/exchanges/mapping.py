"""Feeds messages to the mappers of an exchange."""

import json
from collections.abc import Sequence
from typing import Any

from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import live_mappers, make_normalizer, venue_of
from tardis_machine.model.records import Record
from tardis_machine.model.time import parse_us

LOCAL = "2024-03-01T00:00:00.123456Z"
LINE_START = b"2024-03-01T00:00:00.1234567Z "
NOW_US = parse_us("2100-01-01T00:00:00.000Z")


def line(message: Any) -> bytes:
    """Write a message as a recorded line."""
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    return LINE_START + text


def connect(exchange: str, *data_types: str, at_us: int = 0, is_live: bool = False) -> Normalizer:
    """Start a connection with fresh mappers."""
    known = REGISTRY[exchange]
    return make_normalizer(known, data_types, at_us, NOW_US, is_live=is_live)


def connect_live(exchange: str, *data_types: str) -> Normalizer:
    """Start a live connection, whose books miss no update."""
    known = REGISTRY[exchange]
    mappers = live_mappers(known, data_types, {})
    return Normalizer(exchange, venue_of(known).formats[-1], list(mappers.values()))


def feed_live(normalizer: Normalizer, *messages: Any) -> list[Any]:
    """Return the records of live messages."""
    records: list[Record] = []
    for message in messages:
        normalizer.map_message(line(message)[len(LINE_START) :], LOCAL, records.append)
    return records


def feed(normalizer: Normalizer, *messages: Any) -> list[Any]:
    """Return the records of messages on one connection."""
    records: list[Record] = []
    normalizer.map_lines([line(message) for message in messages], records.append)
    return records


def map_messages(exchange: str, data_types: str | Sequence[str], *messages: Any) -> list[Any]:
    """Return the records of messages on a new connection."""
    names = [data_types] if isinstance(data_types, str) else data_types
    return feed(connect(exchange, *names), *messages)
