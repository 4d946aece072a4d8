"""Headers of an event, the same on every bus that has them."""

from collections.abc import Mapping

from tardis_machine.bronze.series import PerSeries, Series
from tardis_machine.buses.settings import MessageId
from tardis_machine.sinks.base import Event

PAYLOAD_CASE = "payloadCase"
DATA_TYPE = "dataType"
EVENT_ID = "eventId"
DELIVERY_ID = "deliveryId"
DEAD_LETTER_REASON = "deadLetterReason"
DEAD_LETTER_ERROR = "deadLetterError"

_DEAD_LETTER = (DEAD_LETTER_REASON, DEAD_LETTER_ERROR)


class Headers:
    """The headers of events of one bus.

    Args:
        static: the operator's own headers.
        meta_prefix: leads the names of ingest metadata; None leaves it out.
    """

    def __init__(self, static: Mapping[str, str], meta_prefix: str | None = None) -> None:
        self._static = dict(static)
        self._meta_prefix = meta_prefix
        self._shared: PerSeries[tuple[tuple[str, str], ...]] = PerSeries(self._make)

    def shared(self, series: Series) -> tuple[tuple[str, str], ...]:
        """Return the headers that all events of a series have."""
        return self._shared[series]

    def of(self, event: Event) -> list[tuple[str, str]]:
        """Return all headers of an event."""
        return [
            *self._shared[event.series],
            (EVENT_ID, event.event_id),
            (DELIVERY_ID, event.delivery_id),
        ]

    def _make(self, series: Series) -> tuple[tuple[str, str], ...]:
        headers = dict(self._meta(series))
        headers |= self._static
        headers |= {PAYLOAD_CASE: series.case.camel, DATA_TYPE: series.data_type}
        return tuple(headers.items())

    def _meta(self, series: Series) -> Mapping[str, str]:
        # A dead letter on its way to a destination of its own says why it is one.
        why = {key: series.meta[key] for key in _DEAD_LETTER if key in series.meta}
        if self._meta_prefix is None:
            return why
        meta = {
            f"{self._meta_prefix}{key}": value
            for key, value in series.meta.items()
            if key not in _DEAD_LETTER
        }
        return meta | why


def message_id(event: Event, kind: MessageId) -> str | None:
    """Return the id by which a bus may recognise a repeated delivery."""
    if kind == "sequence":
        return event.delivery_id
    return event.event_id if kind == "content" else None
