"""Reports of librdkafka, and the events they belong to."""

from confluent_kafka import KafkaError, Message

from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.kafka.in_flight import Flight, LateFlights, results_of
from tests.contract.sinks import make_events

LATE = Result(Outcome.AMBIGUOUS, "timeout")


def events(count: int, topic: str = "t") -> list[Event]:
    return make_events(KafkaSettings(brokers=("h:1",), topic=topic).router(), count)


def report(flight: Flight, event: Event, code: int | None = None, prefix: bytes = b"") -> None:
    error = None if code is None else KafkaError(code)
    message = Message(topic=event.route.destination, value=prefix + event.data, error=error)
    flight.report(error, message)


def test_reports_find_their_events_in_any_order() -> None:
    flight, sent = Flight(), events(3)
    flight.events += sent
    report(flight, sent[2])
    report(flight, sent[0], KafkaError.THROTTLING_QUOTA_EXCEEDED)
    assert not flight.is_complete
    errors = flight.errors()
    assert errors[sent[2].delivery_id] is None
    assert sent[1].delivery_id not in errors
    outcomes = [result.outcome for result in results_of(sent, errors, {}, LATE)]
    assert outcomes == [Outcome.TRANSIENT, Outcome.AMBIGUOUS, Outcome.OK]


def test_equal_records_are_told_apart_by_their_order() -> None:
    first, second = events(1), events(1)
    second[0].delivery_id = "tester-boot-99"
    flight = Flight()
    flight.events += [*first, *second]
    report(flight, first[0])
    assert flight.errors() == {first[0].delivery_id: None}


def test_prefix_of_framed_records_is_overlooked() -> None:
    flight, sent = Flight(prefix_bytes=6), events(2)
    flight.events += sent
    report(flight, sent[1], prefix=b"\x00\x00\x00\x00\x07\x00")
    assert flight.errors() == {sent[1].delivery_id: None}


def test_records_refused_together_share_the_blame() -> None:
    sent = events(3)
    errors = {event.delivery_id: KafkaError(KafkaError.INVALID_RECORD) for event in sent[:2]}
    together = results_of(sent, {**errors, sent[2].delivery_id: None}, {}, LATE)
    assert [result.is_shared for result in together] == [True, True, False]
    (alone, *_) = results_of(sent[:1], {sent[0].delivery_id: errors[sent[0].delivery_id]}, {}, LATE)
    assert not alone.is_shared


def test_record_refused_before_sending_is_blamed_alone() -> None:
    sent = events(2)
    large = Result(Outcome.BAD_RECORD, "too_large")
    refused = {event.delivery_id: large for event in sent}
    assert results_of(sent, {}, refused, LATE) == [large, large]


def test_late_flights_are_found_until_forgotten_and_bounded() -> None:
    late, flight, sent = LateFlights(limit=2), Flight(), events(3)
    for event in sent:
        late.keep(event, flight)
    assert [event in late for event in sent] == [False, True, True]
    assert late.of(sent) == [flight]
    late.forget(sent[1])
    late.forget(sent[2])
    assert not late
    assert late.of(sent) == []
