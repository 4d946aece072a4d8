"""Entries of streams as packed XADD commands."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tardis_machine.bronze.series import PerSeries, Series
from tardis_machine.buses.redis.client import Words, pack
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import DELIVERY_ID, EVENT_ID, Headers, message_id

SERVER_MAKES_ID = b"*"
_OWN_WORDS = 9
"""XADD, stream, id, the envelope with its name, and two ids with theirs."""


class _Fields(NamedTuple):
    """What the entries of a series share."""

    words: Words
    """Names and values in turn."""
    start: bytes
    """How many words a plain command has, as it begins."""
    packed: bytes
    """The words as they stand in a command, and the name of the event id behind them."""


class EntryIds:
    """Gives every event an entry id of its own, the same however often it is sent.

    Only for a stream with one writer: an id must be above all others of its stream.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._newest: dict[str, tuple[int, int]] = {}
        self._given: dict[str, bytes] = {}
        self._repeated: set[str] = set()

    def __contains__(self, stream: str) -> bool:
        return stream in self._newest

    def start(self, stream: str, newest: tuple[int, int]) -> None:
        """Go on after the newest id that a stream has."""
        self._newest[stream] = newest

    def forget(self, stream: str) -> None:
        """Ask for the newest id again, because another producer wrote to the stream."""
        self._newest.pop(stream, None)

    def give(self, stream: str, event: Event) -> bytes:
        """Return the id of an event: a new one, or the one it was sent with before."""
        name = event.delivery_id
        if name in self._given:
            self._repeated.add(name)
            return self._given[name]
        newest_ms, sequence = self._newest[stream]
        now_ms = self._clock_ms()
        newest = (now_ms, 0) if now_ms > newest_ms else (newest_ms, sequence + 1)
        self._newest[stream] = newest
        self._given[name] = b"%d-%d" % newest
        return self._given[name]

    def is_repeated(self, event: Event) -> bool:
        """Say whether an event was sent before, with an unknown outcome."""
        return event.delivery_id in self._repeated

    def release(self, event: Event) -> None:
        """Forget the id of an event whose outcome is known."""
        self._given.pop(event.delivery_id, None)
        self._repeated.discard(event.delivery_id)


class EntryWriter:
    """Packs events as commands that add them to a stream.

    Args:
        is_idempotent: name every event to the server, so that it drops repeated ones.
        ids: source of entry ids; None: the server.
    """

    def __init__(
        self,
        settings: RedisSettings,
        delivery: EventBusSettings,
        *,
        is_idempotent: bool = False,
        ids: EntryIds | None = None,
    ) -> None:
        self._settings = settings
        self._delivery = delivery
        self._is_idempotent = is_idempotent and delivery.message_id != "off"
        self._ids = ids
        self._headers = Headers(settings.static_headers, settings.meta_headers_prefix)
        self._fields: PerSeries[_Fields] = PerSeries(self._make_fields)

    def pack(self, stream: str, events: Sequence[Event]) -> list[bytes]:
        """Return one command per event; the last one trims the stream."""
        if self._ids is None and not self._is_idempotent:
            packed = self._pack_plain(stream, events)
        else:
            packed = [pack(words) for words in self._words(stream, events, ())]
        if trim := self._trim():
            (words,) = self._words(stream, events[-1:], trim)
            packed[-1] = pack(words)
        return packed

    def _pack_plain(self, stream: str, events: Sequence[Event]) -> list[bytes]:
        head = _pack_words("XADD", stream, SERVER_MAKES_ID, self._settings.data_field)
        fields = self._fields
        packed = []
        for event in events:
            _, start, shared = event.series.derived[fields]
            data = event.data
            event_id, delivery_id = event.event_id.encode(), event.delivery_id.encode()
            packed.append(
                b"%b%b$%d\r\n%b\r\n%b$%d\r\n%b\r\n$10\r\ndeliveryId\r\n$%d\r\n%b\r\n"
                % (
                    *(start, head, len(data), data, shared),
                    *(len(event_id), event_id, len(delivery_id), delivery_id),
                )
            )
        return packed

    def _words(self, stream: str, events: Sequence[Event], trim: Words) -> Iterator[Words]:
        for event in events:
            yield (
                "XADD",
                stream,
                *self._idempotence(event),
                *trim,
                SERVER_MAKES_ID if self._ids is None else self._ids.give(stream, event),
                self._settings.data_field,
                event.data,
                *self._fields[event.series].words,
                EVENT_ID,
                event.event_id,
                DELIVERY_ID,
                event.delivery_id,
            )

    def _idempotence(self, event: Event) -> Words:
        name = message_id(event, self._delivery.message_id)
        if not self._is_idempotent or name is None:
            return ()
        return ("IDMP", self._delivery.producer_id, name)

    def _trim(self) -> Words:
        settings = self._settings
        how = "=" if settings.trim_exact else "~"
        if settings.max_length:
            return ("MAXLEN", how, str(settings.max_length))
        if settings.max_age_ms:
            return ("MINID", how, str(time.time_ns() // 1_000_000 - settings.max_age_ms))
        return ()

    def _make_fields(self, series: Series) -> _Fields:
        """Return the headers of a series, without the names that entries need themselves."""
        own = (self._settings.data_field, EVENT_ID, DELIVERY_ID)
        pairs = (pair for pair in self._headers.shared(series) if pair[0] not in own)
        words = tuple(word for pair in pairs for word in pair)
        start = b"*%d\r\n" % (_OWN_WORDS + len(words))
        return _Fields(words, start, _pack_words(*words, EVENT_ID))


def _pack_words(*words: str | bytes) -> bytes:
    """Return words as they stand in a command."""
    texts = (word.encode() if isinstance(word, str) else word for word in words)
    return b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)
