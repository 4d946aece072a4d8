"""librdkafka's mock cluster, seen by confluent-kafka."""

import time

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.servers.kafka_mock import Api, KafkaMock
from tests.servers.process import ServerFailedError
from tests.servers.readers import read_kafka

pytestmark = pytest.mark.broker


class Sent:
    """A producer and the outcome of everything it sent."""

    def __init__(self, address: str) -> None:
        self.codes: list[int] = []
        config = {"bootstrap.servers": address, "log_level": 0, "enable.idempotence": True}
        config |= {"retry.backoff.ms": 10, "reconnect.backoff.max.ms": 100}
        self.producer = Producer(config | {"topic.metadata.refresh.sparse": False})

    def send(self, topic: str, *values: str, seconds: float = 240) -> int:
        for value in values:
            self.producer.produce(topic, value, on_delivery=self._report)
        return self.producer.flush(seconds)

    def _report(self, error: KafkaError | None, _: Message) -> None:
        self.codes.append(0 if error is None else error.code())


@pytest.fixture
def sent(kafka_mock: KafkaMock) -> Sent:
    return Sent(kafka_mock.address)


async def test_retriable_errors_are_survived_in_order(kafka_mock: KafkaMock, sent: Sent) -> None:
    topic = kafka_mock.create_topic("t")
    codes = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.NOT_ENOUGH_REPLICAS]
    kafka_mock.fail(Api.PRODUCE, *codes)
    values = [str(n) for n in range(50)]
    assert sent.send(topic, *values) == 0
    assert [r.value.decode() for r in await read_kafka(kafka_mock.address, topic)] == values
    assert kafka_mock.requests_total(Api.PRODUCE) >= 3


def test_permanent_error_reaches_the_report(kafka_mock: KafkaMock, sent: Sent) -> None:
    topic = kafka_mock.create_topic("t")
    kafka_mock.fail(Api.PRODUCE, KafkaError.INVALID_RECORD)
    assert sent.send(topic, "bad") == 0
    assert sent.codes == [KafkaError.INVALID_RECORD]


def test_topic_error_shows_in_the_metadata(kafka_mock: KafkaMock, sent: Sent) -> None:
    topic = kafka_mock.create_topic("t")
    kafka_mock.fail_topic(topic, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert sent.send(topic, "forbidden") == 0
    assert sent.codes == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_down_brokers_hold_records_until_they_are_up(kafka_mock: KafkaMock, sent: Sent) -> None:
    topic = kafka_mock.create_topic("t")
    assert sent.send(topic, "before") == 0
    for broker in kafka_mock.brokers:
        kafka_mock.set_down(broker)
    assert sent.send(topic, "held", seconds=0.3) == 1
    kafka_mock.heal()
    assert sent.send(topic) == 0
    assert sent.codes == [0, 0]


async def test_moved_leader_takes_the_next_record(kafka_mock: KafkaMock, sent: Sent) -> None:
    topic = kafka_mock.create_topic("t")
    for broker in kafka_mock.brokers:
        kafka_mock.set_leader(topic, 0, broker)
        assert sent.send(topic, str(broker)) == 0
    records = await read_kafka(kafka_mock.address, topic)
    assert [record.value for record in records] == [b"1", b"2", b"3"]


def test_round_trip_delays_the_report(kafka_mock: KafkaMock, sent: Sent) -> None:
    topic = kafka_mock.create_topic("t")
    sent.send(topic, "warm-up")
    kafka_mock.set_round_trip(200)
    start = time.monotonic()
    assert sent.send(topic, "late") == 0
    assert time.monotonic() - start >= 0.2


def test_unknown_broker_is_an_error_of_the_command(kafka_mock: KafkaMock) -> None:
    with pytest.raises(ServerFailedError):
        kafka_mock.set_down(99)
