"""Events in the hands of librdkafka, and what its reports say about them."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from confluent_kafka import KafkaError, Message

from tardis_machine.buses.kafka.errors import classify
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.sinks.base import Event


class Flight:
    """What one call handed over. Reports only carry the record, so it is found by its content.

    Looking for it is left to the rare call that needs it: one function for all reports costs half
    of what one per event would.

    Args:
        prefix_bytes: length of what stands before the envelope in every record.
    """

    __slots__ = ("_delivered", "_failed", "_prefix_bytes", "events")

    def __init__(self, prefix_bytes: int = 0) -> None:
        self.events: list[Event] = []
        self._delivered: list[bytes | None] = []
        self._failed: list[tuple[bytes | None, KafkaError]] = []
        self._prefix_bytes = prefix_bytes

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Take a delivery report."""
        if error is None:
            # Only the record: the message around it would cost three times the memory.
            self._delivered.append(message.value())
        else:
            self._failed.append((message.value(), error))

    @property
    def is_complete(self) -> bool:
        """Say whether every event has its report."""
        return len(self._delivered) + len(self._failed) == len(self.events)

    @property
    def has_errors(self) -> bool:
        """Say whether an event was reported as not delivered."""
        return bool(self._failed)

    def errors(self) -> dict[str, KafkaError | None]:
        """Return the error of each reported event, or None, by its delivery id."""
        waiting: dict[bytes, deque[str]] = defaultdict(deque)
        for event in self.events:
            waiting[event.data].append(event.delivery_id)
        return dict(self._matched(waiting))

    def _matched(
        self, waiting: Mapping[bytes, deque[str]]
    ) -> Iterator[tuple[str, KafkaError | None]]:
        delivered = ((record, None) for record in self._delivered)
        for record, error in (*delivered, *self._failed):
            data = (record or b"")[self._prefix_bytes :]
            # Equal records share key and partition, whose reports come in order.
            yield waiting[data].popleft(), error


class LateFlights:
    """Flights that outlived their call, so that a retry waits for them instead of sending twice.

    Args:
        limit: events remembered; the oldest are forgotten, and sent again if they come back.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._flights: dict[str, Flight] = {}

    def __bool__(self) -> bool:
        return bool(self._flights)

    def __contains__(self, event: Event) -> bool:
        return event.delivery_id in self._flights

    def keep(self, event: Event, flight: Flight) -> None:
        """Remember where an event without a report is."""
        self._flights.setdefault(event.delivery_id, flight)
        if len(self._flights) > self._limit:
            del self._flights[next(iter(self._flights))]

    def of(self, events: Iterable[Event]) -> list[Flight]:
        """Return the flights that some events are in."""
        found = {id(flight): flight for event in events if (flight := self._find(event))}
        return list(found.values())

    def forget(self, event: Event) -> None:
        """Drop an event whose report was passed on."""
        self._flights.pop(event.delivery_id, None)

    def clear(self) -> None:
        """Drop all, because their client is gone."""
        self._flights.clear()

    def _find(self, event: Event) -> Flight | None:
        return self._flights.get(event.delivery_id)


def results_of(
    events: Sequence[Event],
    errors: Mapping[str, KafkaError | None],
    refused: Mapping[str, Result],
    unreported: Result,
) -> list[Result]:
    """Return the result of each event: refused, reported, or still without a report."""
    reported = {name: OK if error is None else classify(error) for name, error in errors.items()}
    known = {**_blamed(reported), **refused}
    return [known.get(event.delivery_id, unreported) for event in events]


def _blamed(reported: Mapping[str, Result]) -> dict[str, Result]:
    """Mark records that were rejected together: at least one of them is invalid."""
    bad = {name: r for name, r in reported.items() if r.outcome is Outcome.BAD_RECORD}
    if len(bad) < 2:
        return dict(reported)
    shared = {name: msgspec.structs.replace(r, is_shared=True) for name, r in bad.items()}
    return {**reported, **shared}
