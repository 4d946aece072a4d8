"""Events as the client of Event Hubs takes them."""

from azure.eventhub import EventData

from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.buses.settings import MessageId
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import Headers, message_id


class RecordMaker:
    """Makes the client's events of ours."""

    def __init__(self, settings: EventHubsSettings, kind: MessageId) -> None:
        self._headers = Headers(settings.static_headers, settings.meta_headers_prefix)
        self._kind = kind

    def data(self, event: Event) -> EventData:
        """Return the envelope with its headers as properties."""
        data = EventData(event.data)
        data.properties = dict(self._headers.of(event))
        if (own_id := message_id(event, self._kind)) is not None:
            data.message_id = own_id
        return data
