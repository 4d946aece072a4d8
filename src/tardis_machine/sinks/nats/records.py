"""Events as NATS messages: their headers, and the bytes that publish many of them at once."""

import re
from collections.abc import Callable
from urllib.parse import quote

from tardis_machine.bronze.series import PerSeries, Series
from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.settings import MessageId
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import DELIVERY_ID, EVENT_ID, Headers, message_id

MESSAGE_ID = "Nats-Msg-Id"
EXPECTED_STREAM = "Nats-Expected-Stream"
EXPECTED_LAST_ID = "Nats-Expected-Last-Msg-Id"

MAX_SUBJECT_BYTES = 2000
"""A server closes connections whose command lines are longer than 4096 bytes."""

_GREETING = "NATS/1.0\r\n"
_NOT_PLAIN = re.compile(r"[^ -~]")


class RecordHeaders:
    """Writes the header block of an event, as it goes over the wire."""

    def __init__(self, settings: NatsSettings, kind: MessageId) -> None:
        self._headers = Headers(settings.static_headers, settings.meta_headers_prefix)
        self._stream = settings.stream
        self._shared: PerSeries[str] = PerSeries(self._make)
        self._id_of: Callable[[Event], str | None] = lambda event: message_id(event, kind)
        self._is_sequence = kind == "sequence"

    def text(self, event: Event, previous_id: str | None = None) -> str:
        """Return the block; `previous_id` names the message that must be the last one stored."""
        event_id, delivery_id = event.event_id, event.delivery_id
        # Almost all ids are plain already.
        if not (event_id.isascii() and event_id.isprintable()):
            event_id = plain(event_id)
        shared = event.series.derived[self._shared]
        if self._is_sequence and previous_id is None:
            return (
                f"{shared}eventId: {event_id}\r\ndeliveryId: {delivery_id}\r\n"
                f"Nats-Msg-Id: {delivery_id}\r\n\r\n"
            )
        own = [(EVENT_ID, event_id), (DELIVERY_ID, delivery_id)]
        if (own_id := self.id_of(event)) is not None:
            own.append((MESSAGE_ID, own_id))
        if previous_id is not None:
            own.append((EXPECTED_LAST_ID, previous_id))
        return f"{shared}{_lines(own)}\r\n"

    def id_of(self, event: Event) -> str | None:
        """Return the id by which the stream recognises a repeated event."""
        found = self._id_of(event)
        return None if found is None else plain(found)

    def _make(self, series: Series) -> str:
        headers = list(self._headers.shared(series))
        if self._stream is not None:
            headers.append((EXPECTED_STREAM, self._stream))
        return _GREETING + _lines(headers)


def headers_of(block: str) -> dict[str, str]:
    """Return the headers in a block, for a client that writes them itself."""
    lines = block.removeprefix(_GREETING).split("\r\n")
    return dict(line.split(": ", 1) for line in lines if line)


def plain(text: str) -> str:
    """Return a text that a header can hold; different texts stay different."""
    return _NOT_PLAIN.sub(lambda found: quote(found[0]), text)


def _lines(headers: list[tuple[str, str]]) -> str:
    return "".join(f"{name}: {plain(value)}\r\n" for name, value in headers)
