"""Events as Kafka records: their headers, their time and what stands before the envelope."""

from collections.abc import Callable
from typing import TypeAlias

from tardis_machine.bronze.envelope import parse_event
from tardis_machine.bronze.series import PerSeries
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.schema_registry import SchemaRegistry

HeaderFields: TypeAlias = dict[str, str | bytes | None]


def shared_headers(settings: KafkaSettings) -> PerSeries[HeaderFields]:
    """Return the headers that all events of a series have."""
    headers = Headers(settings.static_headers, settings.meta_headers_prefix)
    return PerSeries(lambda series: dict(headers.shared(series)))


def make_registry(settings: KafkaSettings) -> SchemaRegistry | None:
    """Return what frames records for a schema registry; None: they are plain envelopes."""
    if settings.schema_registry_url is None:
        return None
    return SchemaRegistry(
        settings.schema_registry_url,
        username=settings.schema_registry_auth_username,
        password=settings.schema_registry_auth_password,
        subject=settings.schema_registry_subject,
        auto_register=settings.schema_registry_auto_register,
    )


def timestamp_reader(kind: str) -> Callable[[Event], int] | None:
    """Return what reads the time of a record in milliseconds; None: the time of sending."""
    if kind == "publish":
        return None

    def read(event: Event) -> int:
        parsed = parse_event(event.data)
        payload = getattr(parsed, parsed.WhichOneof("payload") or "trade")
        is_own = kind == "event" and payload.HasField("timestamp")
        stamp = payload.timestamp if is_own else parsed.local_ts
        return int(stamp.ToMilliseconds())

    return read
