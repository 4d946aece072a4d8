"""The Kafka broker of the tests, seen by confluent-kafka."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Producer

from tests.servers.kafka import Kafka
from tests.servers.plugin import KAFKA_USERS, unique_name
from tests.servers.readers import read_kafka
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker


@pytest.fixture
def reports() -> list[KafkaError | None]:
    return []


@pytest.fixture
def produce(reports: list[KafkaError | None]) -> Callable[..., int]:
    """Produce values and return how many stayed without a report."""

    def run(
        address: str, topic: str, values: list[str], seconds: float = 240, **config: str
    ) -> int:
        producer = Producer({"bootstrap.servers": address, "log_level": 0, **config})
        for value in values:
            producer.produce(
                topic,
                value,
                "key",
                headers=[("payloadCase", b"trade")],
                on_delivery=lambda error, _: reports.append(error),
            )
        return producer.flush(seconds)

    return run


async def test_produced_records_are_read_back_in_order(
    kafka: Kafka, kafka_topic: str, produce: Callable[..., int]
) -> None:
    values = [str(n) for n in range(200)]
    assert produce(kafka.address, kafka_topic, values) == 0
    records = await read_kafka(kafka.address, kafka_topic)
    assert [record.value.decode() for record in records] == values
    assert {record.key for record in records} == {"key"}
    assert records[0].headers == {"payloadCase": "trade"}


async def test_killed_broker_comes_back_with_its_records(
    kafka: Kafka, kafka_topic: str, produce: Callable[..., int]
) -> None:
    produce(kafka.address, kafka_topic, ["before"])
    pid = kafka.pid
    kafka.kill()
    kafka.start()
    assert kafka.pid != pid
    assert produce(kafka.address, kafka_topic, ["after"]) == 0
    records = await read_kafka(kafka.address, kafka_topic)
    assert [record.value for record in records] == [b"before", b"after"]


async def test_paused_broker_delays_records_until_it_is_resumed(
    kafka: Kafka, kafka_topic: str, produce: Callable[..., int], reports: list[KafkaError | None]
) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    producer.produce(kafka_topic, "warm-up")
    assert producer.flush(30) == 0
    kafka.pause()
    producer.produce(kafka_topic, "held", on_delivery=lambda error, _: reports.append(error))
    assert producer.flush(0.3) == 1
    kafka.resume()
    assert producer.flush(30) == 0
    assert reports == [None]


async def test_sasl_listener_takes_the_known_user_only(
    kafka: Kafka, kafka_topic: str, produce: Callable[..., int]
) -> None:
    (user, secret), *_ = KAFKA_USERS.items()
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": user, "sasl.password": secret}
    assert produce(kafka.sasl_address, kafka_topic, ["in"], **login) == 0
    stranger = login | {"sasl.password": "wrong"}
    assert produce(kafka.sasl_address, kafka_topic, ["out"], seconds=0.5, **stranger) == 1
    assert [r.value for r in await read_kafka(kafka.address, kafka_topic)] == [b"in"]


async def test_tls_listener_shows_our_certificate(
    kafka: Kafka, kafka_topic: str, produce: Callable[..., int], certificates: Certificates
) -> None:
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(certificates.ca)}
    assert produce(kafka.tls_address, kafka_topic, ["sealed"], **tls) == 0
    records = await read_kafka(kafka.tls_address, kafka_topic, **tls)
    assert [record.value for record in records] == [b"sealed"]


def test_missing_topic_is_refused(
    kafka: Kafka, produce: Callable[..., int], reports: list[KafkaError | None]
) -> None:
    quick = {"topic.metadata.propagation.max.ms": "200"}
    assert produce(kafka.address, unique_name("topic"), ["lost"], **quick) == 0
    (error,) = reports
    assert error is not None
    # The broker's own code, or librdkafka's once it has given up asking.
    assert error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
