"""Settings of publishing: the delivery options of all buses, and the options every bus has.

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
Fsync: TypeAlias = Literal["off", "interval", "each"]
Ordering: TypeAlias = Literal["key", "none"]
DeadLetter: TypeAlias = Literal["file", "target", "drop"]
MessageId: TypeAlias = Literal["sequence", "content", "off"]

_PRODUCER_ID = r"[A-Za-z0-9._-]{1,64}"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z:-]+", re.ASCII)
_T = TypeVar("_T")


def default_producer_id() -> str:
    """Return the host name, with characters that a producer id cannot have replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:56] or "tardis-machine"


@dataclass(frozen=True, kw_only=True)
class EventBusSettings:
    """How events are delivered; each bus can have its own values."""

    usual: ClassVar[tuple[str, ...]] = (
        "producer_id",
        "startup",
        "overflow",
        "spool_dir",
        "spool_max_bytes",
        "dead_letter",
        "drain_timeout_ms",
    )

    producer_id: str = computed_option(
        default_producer_id,
        "Name of this producer in envelopes and message ids; workers append -w and their number.",
        shown_default="<hostname>",
        pattern=_PRODUCER_ID,
    )
    startup: Startup = option(
        "lazy",
        "lazy: start even when the bus is unreachable; require: exit when it cannot be connected.",
    )
    startup_timeout_ms: int = option(
        15_000, "Connect timeout at startup, when startup is require.", minimum=0
    )
    queue_max_messages: int = option(
        100_000, "Has no effect any more: events wait in the log (spool-max-bytes).", minimum=1
    )
    queue_max_bytes: int = option(
        64 * MIB,
        "Has no effect any more: events wait in the log (spool-max-bytes).",
        minimum=MIB,
    )
    queue_max_age_ms: int = option(
        30_000, "Has no effect any more: events wait in the log (spool-max-bytes).", minimum=0
    )
    overflow: Overflow = option(
        "drop-oldest",
        "What a bus loses when its backlog is at spool-max-bytes and producers have waited: its "
        "oldest events or its newest. block means drop-newest, spill means drop-oldest.",
    )
    max_block_ms: int = option(
        0, "Has no effect any more: live feeds never wait for a bus.", minimum=0
    )
    replay_max_block_ms: int = option(
        5000, "Maximum time a replay waits for a bus that is at its bound.", minimum=0
    )
    spool_dir: Path | None = computed_option(
        lambda: None,
        "Directory of the log of published events, dead-letter files and the state of jobs.",
        shown_default="$XDG_STATE_HOME/tardis-machine/event-bus",
    )
    spool_max_bytes: int = option(
        1024 * MIB,
        "Maximum backlog in the log per bus; at least 16 MiB.",
        minimum=0,
    )
    parked_max_bytes: int = option(
        256 * MIB,
        "Maximum size of events that wait for a missing or refused destination, per bus; "
        "beyond it they become dead letters, or wait in the log if it works again.",
        minimum=0,
    )
    durability: Durability = option(
        "spool",
        "Has no effect any more: every event is written to the log before it counts as accepted.",
    )
    fsync: Fsync = option(
        "interval",
        "When the log is flushed to disk, for power loss: never, every fsync-ms, or each write.",
    )
    fsync_ms: int = option(
        200,
        "Interval of fsync of the log, when fsync is interval.",
        minimum=0,
        maximum=10_000,
    )
    ordering: Ordering = option(
        "key",
        "key: events with the same key are delivered in order; none: no ordering, a failed event "
        "delays no other.",
    )
    retry_initial_ms: int = option(
        100,
        "Upper bound of the first retry delay (random); doubles per failure up to retry-max-ms.",
        minimum=1,
        maximum=300_000,
    )
    retry_max_ms: int = option(10_000, "Maximum retry delay.", minimum=1, maximum=300_000)
    retry_max_attempts: int = option(
        0, "Maximum send attempts before an event becomes a dead letter; 0: no limit.", minimum=0
    )
    retry_max_age_ms: int = option(
        0,
        "Maximum age of a failing event before it becomes a dead letter; 0: no limit.",
        minimum=0,
    )
    dead_letter: DeadLetter = option(
        "file",
        "Undeliverable events: write to a file, send to dead-letter-target, or drop.",
    )
    dead_letter_max_bytes: int = option(
        256 * MIB,
        "Maximum total size of dead-letter files per bus; the oldest are deleted first.",
        minimum=MIB,
    )
    drain_timeout_ms: int = option(
        30_000, "Maximum time to deliver queued events at shutdown.", minimum=0
    )
    message_id: MessageId = option(
        "sequence",
        "Message id for deduplication by the bus: sequence (per delivery), content (per event) "
        "or off.",
    )
    log_interval_ms: int = option(
        10_000, "Minimum interval between identical warnings in the log.", minimum=1000
    )

    def __post_init__(self) -> None:
        if problems := self.problems():
            raise SettingsError(*problems)

    def warnings(self) -> Iterable[str]:
        """Say which options were set that have no effect any more, and what replaced them."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name, replacement in _WITHOUT_EFFECT.items():
            if getattr(self, name) != defaults[name]:
                yield f"event-bus-{name.replace('_', '-')} has no effect any more: {replacement}"
        if self.overflow == "spill":
            yield "event-bus-overflow=spill has no effect any more: it means drop-oldest"
        if not self.spool_max_bytes:
            yield "event-bus-spool-max-bytes=0 has no effect any more: the log has 16 MiB at least"

    def problems(self) -> list[str]:
        """Return what is wrong with the options together."""
        return [text for is_wrong, text in self._checks() if is_wrong]

    @property
    def backlog_max_bytes(self) -> int:
        """Return the bound of the backlog of one bus."""
        return max(self.spool_max_bytes, MIN_SPOOL_BYTES)

    @property
    def drops_newest(self) -> bool:
        """Say whether a backlog at its bound loses its newest events, not its oldest."""
        return self.overflow in ("block", "drop-newest")

    def _checks(self) -> Iterable[tuple[bool, str]]:
        is_small = 0 < self.spool_max_bytes < MIN_SPOOL_BYTES
        yield is_small, "event-bus-spool-max-bytes must be 0 or at least 16 MiB."
        yield (
            self.retry_initial_ms > self.retry_max_ms,
            "event-bus-retry-initial-ms must not be above event-bus-retry-max-ms.",
        )


_SHARED_BY_ALL_BUSES = ("producer_id", "fsync")
"""There is one log, and its envelopes are encoded once for every bus."""

_WITHOUT_EFFECT = {
    "queue_max_messages": "events wait in the log, bounded by event-bus-spool-max-bytes",
    "queue_max_bytes": "events wait in the log, bounded by event-bus-spool-max-bytes",
    "queue_max_age_ms": "events wait in the log, bounded by event-bus-spool-max-bytes",
    "max_block_ms": "live feeds never wait for a bus",
    "durability": "every event is in the log before it counts as accepted; see event-bus-fsync",
}


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
            metadata = {**field.metadata, "shown_default": shown, "overrides": shown}
            cls.__annotations__[field.name] = hints[field.name] | None
            setattr(cls, field.name, dataclasses.field(default=None, metadata=metadata))
        return dataclass(frozen=True, kw_only=True)(cls)

    return decorate


@overriding()
class DeliveryOverrides:
    """Delivery options of one bus, where they differ from those of all buses."""


@dataclass(frozen=True, kw_only=True)
class BusSettings(ABC):
    """Options of every bus.

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
    usual: ClassVar[tuple[str, ...]]
    """Options that short help shows."""

    include_payloads: tuple[str, ...] = option((), "Payload cases to publish (default: all).")
    exclude_payloads: tuple[str, ...] = option((), "Payload cases not to publish.")
    static_headers: Mapping[str, str] = option(
        {}, "Headers added to every event.", metavar="name:value,…"
    )
    max_batch_size: int = option(1000, "Maximum events per batch.", minimum=1)
    max_batch_bytes: int = option(MIB, "Maximum bytes per batch.", minimum=1)
    max_batch_delay_ms: int = option(10, "Maximum time to wait for a batch to fill.", minimum=0)
    dead_letter_target: str | None = option(
        None, "Destination of dead letters when dead-letter is target."
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

    @property
    def timeout_seconds(self) -> float:
        """Return all timeouts of its client together."""
        names = (
            each.name for each in dataclasses.fields(self) if each.name.endswith("_timeout_ms")
        )
        milliseconds: int = sum(getattr(self, name) for name in names)
        return milliseconds / 1000

    def problems(self) -> Iterable[str]:
        """Return what is wrong with the options of this bus."""
        return ()

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """Return where the bus is, without secrets: what is left for it goes nowhere else."""

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
            return dataclasses.replace(shared, **given_delivery(self))
        except SettingsError as error:
            # What is wrong with the options of all buses is said once, and not again for each bus.
            own = (text for text in error.problems if text not in shared.problems())
            raise SettingsError(
                *(text.replace("event-bus-", f"{self.bus}-") for text in own)
            ) from error

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
    """Options of every bus with record headers."""

    meta_headers_prefix: str | None = option(
        None,
        "Also send ingest metadata as headers with this prefix, which may be empty "
        "(default: not sent).",
    )


RESERVED_HEADERS = ("payloadCase", "dataType", "eventId", "deliveryId")
"""Headers of every event; see `sinks.headers`."""


def ignored_options(settings: BusSettings) -> list[str]:
    """Return the options that were set although the bus is off."""
    if settings.is_on:
        return []
    names = [
        field.name
        for field in dataclasses.fields(settings)
        if "help" in field.metadata and getattr(settings, field.name) != _default(field)
    ]
    names += given_delivery(settings)
    return [f"{settings.bus}-{name.replace('_', '-')}" for name in names]


def cases_of(buses: Iterable[BusSettings]) -> frozenset[PayloadCase]:
    """Return the payload cases that at least one bus publishes."""
    return frozenset().union(*(bus.cases for bus in buses)) & ALL_CASES


def given_delivery(settings: BusSettings) -> dict[str, Any]:
    """Return the delivery options that are set for this bus."""
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
        yield f'{option_name}: "{name}" is not a valid header name.'
    if not value or any(ord(character) < 32 for character in value):
        yield f'{option_name}: the value of "{name}" is empty or has control characters.'
    if any(_is_reserved(name, pattern) for pattern in reserved):
        yield f'{option_name} cannot override reserved header "{name}".'


def _is_reserved(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.lower().startswith(pattern[:-1].lower())
    return name.lower() == pattern.lower()
