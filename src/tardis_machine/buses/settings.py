"""Settings of publishing: what all buses share, and what every bus can be told.

A bus declares its own class below `BusSettings`, in `buses/<bus>/settings.py`, and one line in
`buses.registry`. The class must not import the client library of the bus.
"""

import dataclasses
import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_type_hints

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.routing import ALL_CASES, Router, allowed_cases
from tardis_machine.buses.destinations import Destinations
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import computed_option, option

MIB = 1_048_576
MIN_SPOOL_BYTES = 16 * MIB

Startup: TypeAlias = Literal["lazy", "require"]
Overflow: TypeAlias = Literal["spill", "block", "drop-oldest", "drop-newest"]
Durability: TypeAlias = Literal["memory", "spool"]
Ordering: TypeAlias = Literal["key", "none"]
DeadLetter: TypeAlias = Literal["file", "target", "drop"]
MessageId: TypeAlias = Literal["sequence", "content", "off"]

_PRODUCER_ID = r"[A-Za-z0-9._-]{1,64}"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z:-]+", re.ASCII)
_T = TypeVar("_T")


def default_producer_id() -> str:
    """Return the host name, as far as a producer id can hold it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:56] or "tardis-machine"


@dataclass(frozen=True, kw_only=True)
class EventBusSettings:
    """How events are delivered; each bus can have its own values."""

    producer_id: str = computed_option(
        default_producer_id,
        "Name of this producer, in envelopes and message ids; workers add -w and their number.",
        shown_default="<hostname>",
        pattern=_PRODUCER_ID,
    )
    startup: Startup = option(
        "lazy", "lazy: serve even while a bus is down; require: fail when one is not reached."
    )
    startup_timeout_ms: int = option(
        15_000, "How long a required bus may take to connect.", minimum=0
    )
    queue_max_messages: int = option(100_000, "Events held in memory.", minimum=1)
    queue_max_bytes: int = option(
        64 * MIB, "Bytes of envelopes, keys and headers held in memory.", minimum=MIB
    )
    queue_max_age_ms: int = option(
        30_000,
        "Age of the oldest event at which new ones are spilled, or a job waits, as if memory were "
        "full; 0: no limit.",
        minimum=0,
    )
    overflow: Overflow = option("spill", "What happens to new events when memory is full.")
    max_block_ms: int = option(0, "How long real-time streams wait for room.", minimum=0)
    replay_max_block_ms: int = option(5000, "How long replays wait for room.", minimum=0)
    spool_dir: Path | None = computed_option(
        lambda: None,
        "Where spools, dead letters and jobs are kept.",
        shown_default="<cache-dir>/event-bus",
    )
    spool_max_bytes: int = option(
        1024 * MIB, "Largest spool of one bus, at least 16 MiB; 0: no spool.", minimum=0
    )
    durability: Durability = option(
        "memory", "spool: write events to disk before they are accepted; survives kill -9."
    )
    fsync_ms: int = option(
        200, "How often the spool is flushed to disk; 0: each time.", minimum=0, maximum=10_000
    )
    ordering: Ordering = option(
        "key", "key: events of one key arrive in order; none: a failed one holds up no other."
    )
    retry_initial_ms: int = option(
        100, "Longest first pause before a retry; it doubles.", minimum=1, maximum=300_000
    )
    retry_max_ms: int = option(10_000, "Longest pause before a retry.", minimum=1, maximum=300_000)
    retry_max_attempts: int = option(
        0, "Attempts before an event becomes a dead letter; 0: no limit.", minimum=0
    )
    retry_max_age_ms: int = option(
        0, "Age at which a failing event becomes a dead letter; 0: no limit.", minimum=0
    )
    dead_letter: DeadLetter = option(
        "file", "Where events go that can never be delivered: a file, a destination, or nowhere."
    )
    dead_letter_max_bytes: int = option(
        256 * MIB, "Largest total of dead-letter files; the oldest go first.", minimum=MIB
    )
    drain_timeout_ms: int = option(
        30_000, "How long undelivered events are sent at shutdown.", minimum=0
    )
    message_id: MessageId = option(
        "sequence", "Id the bus may drop duplicates by: of the delivery, of the content, or none."
    )
    log_interval_ms: int = option(10_000, "Shortest time between two equal warnings.", minimum=1000)

    def __post_init__(self) -> None:
        problems = [text for is_wrong, text in self._checks() if is_wrong]
        if problems:
            raise SettingsError(*problems)

    @property
    def has_spool(self) -> bool:
        """Say whether events may be kept on disk."""
        return self.spool_max_bytes > 0

    def _checks(self) -> Iterable[tuple[bool, str]]:
        is_small = 0 < self.spool_max_bytes < MIN_SPOOL_BYTES
        yield is_small, "event-bus-spool-max-bytes must be 0 or at least 16 MiB."
        yield (
            not self.has_spool and self.overflow == "spill",
            "event-bus-overflow spill needs a spool: set event-bus-spool-max-bytes above 0.",
        )
        yield (
            not self.has_spool and self.durability == "spool",
            "event-bus-durability spool needs a spool: set event-bus-spool-max-bytes above 0.",
        )
        yield (
            self.retry_initial_ms > self.retry_max_ms,
            "event-bus-retry-initial-ms must not be above event-bus-retry-max-ms.",
        )


_SHARED_BY_ALL_BUSES = ("producer_id",)
"""Envelopes are encoded once, so their producer is the same on every bus."""


def overriding(*without: str) -> Callable[[type[_T]], type[_T]]:
    """Make a class the per-bus form of `EventBusSettings`: each option again, unset by default.

    Args:
        without: options that the bus declares itself, with a meaning or default of its own.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        hints = get_type_hints(EventBusSettings)
        cls.__annotations__ = {}
        for field in dataclasses.fields(EventBusSettings):
            if field.name in (*without, *_SHARED_BY_ALL_BUSES):
                continue
            shown = f"event-bus-{field.name.replace('_', '-')}"
            metadata = {**field.metadata, "shown_default": shown}
            cls.__annotations__[field.name] = hints[field.name] | None
            setattr(cls, field.name, dataclasses.field(default=None, metadata=metadata))
        return dataclass(frozen=True, kw_only=True)(cls)

    return decorate


@overriding()
class DeliveryOverrides:
    """What differs for one bus from the delivery to all of them."""


@dataclass(frozen=True, kw_only=True)
class BusSettings(ABC):
    """What every bus can be told.

    A subclass gives the class variables, its own options (a redeclared one changes its default),
    `delivery: DeliveryOverrides = group(DeliveryOverrides, "<bus>")`, `destinations` and, for
    checks of its own, `problems`. It is decorated as a frozen dataclass too.
    """

    bus: ClassVar[str]
    """Name in flags, logs and metrics, such as `event-hubs`."""
    title: ClassVar[str]
    """Name in sentences, such as `Event Hubs`."""
    extra: ClassVar[str | None] = None
    """The optional dependency that brings its client."""
    client: ClassVar[str | None] = None
    """The module of that client, such as `confluent_kafka`."""
    anchors: ClassVar[tuple[str, ...]]
    """Options any of which switches the bus on."""
    reserved_headers: ClassVar[tuple[str, ...]] = ()
    """Header names the bus uses itself; a trailing `*` stands for any ending."""

    include_payloads: tuple[str, ...] = option((), "Payload cases to publish; none: all.")
    exclude_payloads: tuple[str, ...] = option((), "Payload cases not to publish.")
    static_headers: Mapping[str, str] = option(
        {}, "Headers added to every event.", metavar="name:value,…"
    )
    max_batch_size: int = option(1000, "Events per batch.", minimum=1)
    max_batch_bytes: int = option(MIB, "Bytes per batch.", minimum=1)
    max_batch_delay_ms: int = option(10, "How long a batch waits for more events.", minimum=0)
    dead_letter_target: str | None = option(
        None, "Destination of dead letters, where dead-letter is target."
    )

    def __post_init__(self) -> None:
        problems = [*self._shared_problems(), *self.problems()]
        if problems:
            raise SettingsError(*problems)

    @property
    def is_on(self) -> bool:
        """Say whether events are published to this bus."""
        return any(getattr(self, anchor) for anchor in self.anchors)

    @property
    def cases(self) -> frozenset[PayloadCase]:
        """Return the payload cases that go to this bus."""
        return allowed_cases(self.include_payloads, self.exclude_payloads, self.bus)

    def problems(self) -> Iterable[str]:
        """Return what is wrong with the options of this bus."""
        return ()

    @property
    @abstractmethod
    def destinations(self) -> Destinations:
        """Return what names the destinations of this bus."""

    def router(self) -> Router:
        """Return where the events of each series go, and under which key."""
        return self.destinations.router(self.cases)

    def resolve(self, shared: EventBusSettings) -> EventBusSettings:
        """Return how events are delivered to this bus."""
        try:
            return dataclasses.replace(shared, **_given(self))
        except SettingsError as error:
            renamed = (text.replace("event-bus-", f"{self.bus}-") for text in error.problems)
            raise SettingsError(*renamed) from error

    def _shared_problems(self) -> Iterable[str]:
        try:
            allowed_cases(self.include_payloads, self.exclude_payloads, self.bus)
        except SettingsError as error:
            yield from error.problems
        option_name = f"{self.bus}-static-headers"
        reserved = (*RESERVED_HEADERS, *self.reserved_headers)
        for name, value in self.static_headers.items():
            yield from _header_problems(name, value, option_name, reserved)


@dataclass(frozen=True, kw_only=True)
class HeaderBusSettings(BusSettings):
    """What every bus with record headers can be told."""

    meta_headers_prefix: str | None = option(
        None, "Also send ingest metadata as headers with this prefix; an empty one is allowed."
    )


RESERVED_HEADERS = ("payloadCase", "dataType", "eventId", "deliveryId")
"""Headers every event carries; see `sinks.headers`."""


def ignored_options(settings: BusSettings) -> list[str]:
    """Return the options that were set although the bus is off."""
    if settings.is_on:
        return []
    names = [
        field.name
        for field in dataclasses.fields(settings)
        if "help" in field.metadata and getattr(settings, field.name) != _default(field)
    ]
    names += _given(settings)
    return [f"{settings.bus}-{name.replace('_', '-')}" for name in names]


def cases_of(buses: Iterable[BusSettings]) -> frozenset[PayloadCase]:
    """Return the payload cases that at least one bus takes."""
    return frozenset().union(*(bus.cases for bus in buses)) & ALL_CASES


def _given(settings: BusSettings) -> dict[str, Any]:
    """Return the delivery options that a bus has values of its own for."""
    overrides = getattr(settings, "delivery", None)
    if overrides is None:
        return {}
    values = {field.name: getattr(overrides, field.name) for field in dataclasses.fields(overrides)}
    return {name: value for name, value in values.items() if value is not None}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _header_problems(
    name: str, value: str, option_name: str, reserved: Iterable[str]
) -> Iterable[str]:
    if not _HEADER_NAME.fullmatch(name):
        yield f'{option_name}: "{name}" is not a header name.'
    if not value or any(ord(character) < 32 for character in value):
        yield f'{option_name}: the value of "{name}" must be text on one line.'
    if any(_is_reserved(name, pattern) for pattern in reserved):
        yield f'{option_name} cannot override reserved header "{name}".'


def _is_reserved(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.lower().startswith(pattern[:-1].lower())
    return name.lower() == pattern.lower()
