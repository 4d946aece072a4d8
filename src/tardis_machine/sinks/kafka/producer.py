"""A producer of librdkafka: events go in, flights with their reports come out."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer

from tardis_machine.bronze.series import PerSeries
from tardis_machine.buses.kafka.client import Listener, client_properties
from tardis_machine.buses.kafka.errors import classify
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import DELIVERY_ID, EVENT_ID
from tardis_machine.sinks.kafka.in_flight import Flight
from tardis_machine.sinks.kafka.records import HeaderFields
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

# A batch is sent when its call ends (`flush`), so that one call makes one batch per partition and
# a refused batch takes no earlier or later one with it. This is only the limit of a stray wait.
_LINGER_MS = 100
# Records of several calls may be in the hands of librdkafka while brokers are away.
_CALLS_IN_QUEUE = 10
_MIN_QUEUE_KBYTES = 65_536
_KIB = 1024

_FULL = Result(Outcome.TRANSIENT, Reason.QUEUE_FULL, "the queue of librdkafka is full")
_SLICE_SECONDS = 0.1
_PATIENCE_SECONDS = 3.0
"""How long to wait while no broker can be reached: librdkafka takes a second or two to connect
again, and keeps the records whatever we do."""
_ANY_PARTITION = -1
_NOW = 0
# What librdkafka raises when it is in a fatal state; a SystemError when that happens in a report.
_FAILURES = (KafkaException, SystemError)


def producer_properties(settings: KafkaSettings) -> dict[str, Any]:
    """Return the properties of the producer; what the operator gives comes last."""
    queue_kbytes = _CALLS_IN_QUEUE * settings.max_batch_bytes // _KIB
    properties: dict[str, Any] = {
        **client_properties(settings),
        "acks": settings.acks_number,
        "enable.idempotence": settings.is_idempotent,
        "max.in.flight.requests.per.connection": settings.requests_in_flight,
        # Never give up on a record: its successors must not overtake it.
        "delivery.timeout.ms": 0,
        "request.timeout.ms": settings.request_timeout_ms,
        "retry.backoff.ms": 100,
        "retry.backoff.max.ms": 2000,
        "linger.ms": _LINGER_MS,
        "batch.num.messages": settings.max_batch_size,
        "batch.size": settings.max_batch_bytes,
        "message.max.bytes": settings.max_record_bytes,
        "queue.buffering.max.messages": _CALLS_IN_QUEUE * settings.max_batch_size,
        "queue.buffering.max.kbytes": max(queue_kbytes, _MIN_QUEUE_KBYTES),
        "compression.type": settings.compression,
        "partitioner": settings.partitioner,
        # The sink looks whether a topic exists before it sends anything to it.
        "topic.metadata.propagation.max.ms": 1000,
        "statistics.interval.ms": settings.statistics_interval_ms,
    }
    if settings.compression_level is not None:
        properties["compression.level"] = settings.compression_level
    return {**properties, **settings.config}


class EventProducer:
    """Hands events to librdkafka and waits for it; of no use any more once `is_lost`.

    Args:
        properties: of librdkafka.
        listener: hears what librdkafka says beside its reports.
        headers: the headers that events of a series share; librdkafka copies them, so that one
            dict per series can be filled again and again.
        prefixes: what stands before the envelope, by topic.
        stamp: reads the time of a record in milliseconds; None: the time of sending.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        listener: Listener,
        headers: PerSeries[HeaderFields],
        prefixes: Mapping[str, bytes],
        stamp: Callable[[Event], int] | None,
    ) -> None:
        self.is_lost = False
        self.listener = listener
        self._headers = headers
        self._prefixes = prefixes
        self._stamp = stamp
        self._brokers = properties["bootstrap.servers"]
        callbacks = {
            "error_cb": listener.error,
            "logger": listener,
            "stats_cb": listener.statistics,
        }
        try:
            self.client = Producer({**properties, **callbacks})
        except KafkaException as error:
            raise SinkError(listener.hidden(error.args[0].str())) from None

    def wait_for_broker(self, seconds: float) -> None:
        """Return when a broker answers; raise when none does in this time."""
        self.listener.forget()
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.client.list_topics(timeout=seconds / 10)
            except KafkaException as error:
                self.client.poll(0)
                self._give_up(error, is_over=time.monotonic() > deadline)
            else:
                return

    def fly(self, events: Sequence[Event], flight: Flight, deadline: float) -> dict[str, Result]:
        """Hand events over and wait for their reports; return the results of those not taken."""
        refused = self._hand_over(events, flight, deadline)
        self.wait([flight], deadline)
        return refused

    def wait(self, flights: Collection[Flight], deadline: float) -> None:
        """Wait until flights are complete, time is over, or waiting is in vain."""
        patience = time.monotonic() + _PATIENCE_SECONDS
        refusals = self.listener.refusals_total
        while not all(flight.is_complete for flight in flights):
            if self.listener.is_cut_off:
                deadline = min(deadline, patience)
            remaining = deadline - time.monotonic()
            if remaining <= 0 or self.listener.refusals_total > refusals:
                return
            # `flush` sends at once, without lingering for more records.
            if not self._run(self.client.flush, min(_SLICE_SECONDS, remaining)):
                return
        if any(flight.events for flight in flights):
            self.listener.forget()

    def poll(self, seconds: float) -> None:
        """Take reports, log lines and new tokens, and wait for one at most so long."""
        self._run(self.client.poll, seconds)

    def close(self, seconds: float) -> None:
        """Wait for reports where they may come, then give the rest up."""
        try:
            self.client.flush(0 if self.listener.is_cut_off else seconds)
            self.client.purge()
            self.client.flush(0)
            self.client.close()
        except _FAILURES as error:
            log.debug("kafka producer closed in a fatal state", error=str(error))

    def _give_up(self, error: KafkaException, *, is_over: bool) -> None:
        """Raise when a broker rejected the authentication or no broker responds."""
        listener, where = self.listener, self._brokers
        if listener.is_refused:
            text = f"Kafka at {where} rejected the authentication: {listener.last_error}"
            raise SinkError(text) from None
        if is_over or listener.is_cut_off:
            said = listener.last_error or listener.hidden(error.args[0].str())
            raise SinkUnavailableError(
                f"No response from a Kafka broker at {where}: {said}"
            ) from None

    def _hand_over(
        self, events: Sequence[Event], flight: Flight, deadline: float
    ) -> dict[str, Result]:
        refused: dict[str, Result] = {}
        while events:
            taken = len(flight.events)
            try:
                self._produce(events, flight)
                break
            except BufferError:
                events = events[len(flight.events) - taken :]
                if not self._wait_for_room(deadline):
                    refused |= {event.delivery_id: _FULL for event in events}
                    break
            except KafkaException as error:
                culprit, *events = events[len(flight.events) - taken :]
                result = refused[culprit.delivery_id] = classify(error.args[0])
                events = self._spared(culprit, result, events, refused)
        return refused

    def _produce(self, events: Iterable[Event], flight: Flight) -> None:
        """Pass events to librdkafka until it rejects one; `flight` has those it accepted."""
        produce, report, take = self.client.produce, flight.report, flight.events.append
        headers, prefixes, stamp = self._headers, self._prefixes, self._stamp
        for event in events:
            route = event.route
            prefix = prefixes[route.destination]
            fields = event.series.derived[headers]
            fields[EVENT_ID] = event.event_id
            fields[DELIVERY_ID] = event.delivery_id
            # By position: names cost as much as the report does.
            produce(
                route.destination,
                prefix + event.data if prefix else event.data,
                route.key,
                _ANY_PARTITION,
                report,
                None,
                stamp(event) if stamp else _NOW,
                fields,
            )
            take(event)

    def _wait_for_room(self, deadline: float) -> bool:
        """Let librdkafka work until it may take more; False when there is no time left."""
        remaining = deadline - time.monotonic()
        return remaining > 0 and self._run(self.client.poll, min(_SLICE_SECONDS, remaining))

    def _spared(
        self, culprit: Event, result: Result, events: list[Event], refused: dict[str, Result]
    ) -> list[Event]:
        """Return the events to go on with after one was refused; the others share its result."""
        if result.outcome is Outcome.BAD_RECORD:
            return events
        self.is_lost |= result.outcome is Outcome.CLIENT_LOST
        topic = culprit.route.destination
        sharing = [event for event in events if self.is_lost or event.route.destination == topic]
        refused |= {event.delivery_id: result for event in sharing}
        return [event for event in events if event.delivery_id not in refused]

    def _run(self, work: Callable[[float], object], seconds: float) -> bool:
        """Let librdkafka work; False when it turns out to be unusable."""
        try:
            work(seconds)
        except _FAILURES as error:
            log.warning(
                "kafka producer failed; it will be recreated",
                error=self.listener.hidden(str(error)),
            )
            self.is_lost = True
        return not self.is_lost
