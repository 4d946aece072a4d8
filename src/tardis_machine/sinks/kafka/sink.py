"""The Kafka sink, on confluent-kafka (librdkafka).

librdkafka retries by itself and keeps the order of each partition while it does. The sink hands
events over, waits for their reports and says what they mean. One client never sends an event twice:
an event whose report did not come in time stays in librdkafka's hands, and when the sender sends it
again the sink waits for that same report.
"""

import time
from collections.abc import Collection, Iterable, Sequence

from tardis_machine.buses.kafka.client import Listener
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.kafka.in_flight import Flight, LateFlights, results_of
from tardis_machine.sinks.kafka.producer import EventProducer, producer_properties
from tardis_machine.sinks.kafka.records import make_registry, shared_headers, timestamp_reader
from tardis_machine.sinks.kafka.topics import Topics
from tardis_machine.sinks.schema_registry import PREFIX_BYTES
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_LOST = Result(Outcome.CLIENT_LOST, Reason.FATAL_ERROR, "the producer had a fatal error")
_LATE = Result(Outcome.AMBIGUOUS, Reason.TIMEOUT, "no delivery report within the request timeout")

_FILLED = 0.9
"""How much of a batch of librdkafka one call fills by our count of bytes, which is an estimate. A
call that needs two batches for a partition costs up to ten times the CPU: the thread of librdkafka
does not sleep while the second one waits."""
_LATE_SECONDS = 0.5
"""How long a call waits for events that already had their time in an earlier one."""
_LATE_LIMIT = 200_000


class KafkaSink:
    """Publishes events to Kafka topics."""

    keeps_order = True

    def __init__(self, settings: KafkaSettings, delivery: EventBusSettings) -> None:
        self._settings = settings
        self.max_batch_events = settings.max_batch_size
        self.max_batch_bytes = int(settings.max_batch_bytes * _FILLED)
        self.max_batch_delay_seconds = settings.max_batch_delay_ms / 1000
        self._timeout_seconds = settings.request_timeout_ms / 1000
        self._headers = shared_headers(settings)
        self._stamp = timestamp_reader(settings.timestamp)
        self._registry = make_registry(settings)
        self._listener = Listener(settings.secrets, delivery.log_interval_ms / 1000)
        self._topics = Topics(settings)
        # Made here too, so that what is missing for them is said before anything starts; not kept,
        # because they hold passwords.
        producer_properties(settings)
        self._prefixes: dict[str, bytes] = {}
        """What stands before the envelope, by topic; a topic that is here can be sent to."""
        self._late = LateFlights(_LATE_LIMIT)
        self._producer: EventProducer | None = None

    def open(self) -> None:
        """Make a producer and wait until a broker answers."""
        self.close(0)
        _warn_of_risks(self._settings)
        producer = EventProducer(
            producer_properties(self._settings),
            self._listener,
            self._headers,
            self._prefixes,
            self._stamp,
        )
        try:
            producer.wait_for_broker(self._settings.connect_timeout_ms / 1000)
        except SinkError:
            producer.close(0)
            raise
        self._producer = producer

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        """Hand events over and wait for their reports, at most the request timeout."""
        producer = self._producer
        if producer is None or producer.is_lost:
            return [_LOST] * len(events)
        deadline = time.monotonic() + self._timeout_seconds
        held = self._unready_topics(events, producer)
        fresh = self._fresh(events, held) if held or self._late else events
        flight = Flight(PREFIX_BYTES if self._registry else 0)
        refused = producer.fly(fresh, flight, deadline)
        if flight.is_complete and not flight.has_errors and len(flight.events) == len(events):
            return [OK] * len(events)
        late = self._late.of(events)
        producer.wait(late, min(deadline, time.monotonic() + _LATE_SECONDS))
        refused |= self._held_results(events, held)
        return self._sort_out(producer, events, [flight, *late], refused)

    def idle(self, seconds: float) -> None:
        """Take late reports, log lines and new tokens."""
        if self._producer is not None:
            self._producer.poll(seconds)

    def close(self, seconds: float) -> None:
        """Wait for reports, then give the rest up; the sender still has it."""
        producer, self._producer = self._producer, None
        self._late.clear()
        self._prefixes.clear()
        if producer is not None:
            producer.close(seconds)

    def _unready_topics(
        self, events: Iterable[Event], producer: EventProducer
    ) -> dict[str, Result]:
        """Return why some topics cannot be sent to now; the others are ready."""
        new = {event.route.destination for event in events} - self._prefixes.keys()
        if not new:
            return {}
        refusals = self._topics.refusals(sorted(new), producer.client)
        found = ((topic, self._prepare(topic)) for topic in new - refusals.keys())
        return refusals | {topic: refusal for topic, refusal in found if refusal is not None}

    def _prepare(self, topic: str) -> Result | None:
        """Find what stands before the envelopes of a topic, or say why that is not known now."""
        try:
            self._prefixes[topic] = self._registry.prefix(topic) if self._registry else b""
        except SinkUnavailableError as error:
            return Result(Outcome.TRANSIENT, Reason.SCHEMA_REGISTRY, str(error))
        except SinkError as error:
            return Result(Outcome.BAD_DESTINATION, Reason.SCHEMA_REGISTRY, str(error))
        return None

    def _fresh(self, events: Iterable[Event], held: Collection[str]) -> list[Event]:
        """Return the events that librdkafka does not have yet and can have now."""
        return [
            event
            for event in events
            if event.route.destination not in held and event not in self._late
        ]

    def _held_results(self, events: Iterable[Event], held: dict[str, Result]) -> dict[str, Result]:
        return {
            event.delivery_id: held[event.route.destination]
            for event in events
            if event.route.destination in held and event not in self._late
        }

    def _sort_out(
        self,
        producer: EventProducer,
        events: Sequence[Event],
        flights: Sequence[Flight],
        refused: dict[str, Result],
    ) -> list[Result]:
        """Return the results of a call in which not everything went well."""
        errors = {name: error for one in flights for name, error in one.errors().items()}
        results = results_of(events, errors, refused, self._unreported(producer))
        self._remember(events, results, flights[0], errors.keys() | refused.keys())
        return results

    def _unreported(self, producer: EventProducer) -> Result:
        """Return what becomes of events without a report."""
        if producer.is_lost:
            return _LOST
        if self._listener.is_refused:
            return Result(
                Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED, self._listener.last_error
            )
        return _LATE

    def _remember(
        self,
        events: Sequence[Event],
        results: Iterable[Result],
        flight: Flight,
        settled: Collection[str],
    ) -> None:
        """Keep events that librdkafka still has, and look again for topics that failed."""
        for event, result in zip(events, results, strict=True):
            if (
                result.outcome is Outcome.BAD_DESTINATION
                and result.reason is not Reason.NOT_AUTHENTICATED
            ):
                self._prefixes.pop(event.route.destination, None)
            if event.delivery_id in settled:
                self._late.forget(event)
            else:
                self._late.keep(event, flight)


def _warn_of_risks(settings: KafkaSettings) -> None:
    if settings.acks_number == 0:
        log.warning("kafka-acks is none: records may be lost silently")
    if settings.timestamp != "publish":
        log.warning(
            "retention uses the record timestamp: brokers may delete replayed records at once",
            kafka_timestamp=settings.timestamp,
        )
