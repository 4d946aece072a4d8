"""Measure `send` alone: events per CPU second of the calling process, against real local servers.

Run with `python -m benchmarks.sinks [kafka redis ...]`. A bus adds a function to `BUSES`; the
client's own ways, where they are shown, say what the chosen one is worth.
"""

import gc
import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import hiredis
import orjson
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import identities
from tardis_machine.bronze.routing import Router
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.model.ndjson import NormalizedRecord, encode_lines
from tardis_machine.model.records import BookChange, BookLevel, Trade
from tardis_machine.model.settings import Secret
from tardis_machine.model.time import ms_text, us_text
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.delivery.events import address
from tardis_machine.sinks.registry import make_sink
from tests.servers.kafka import Kafka
from tests.servers.redis import Redis

START_US = 1_709_251_200_000_000
EVENTS = 20_000
ROUNDS = 7
META = {"request_id": "9f2c7a1e", "transport": "http"}
DELIVERY = EventBusSettings(producer_id="bench")

Send = Callable[[Sequence[Event]], object]


def records() -> list[NormalizedRecord]:
    """Return trades and three-level book changes in turn."""
    return [trade(number) if number % 2 else book_change(number) for number in range(EVENTS)]


def trade(number: int) -> Trade:
    return Trade(
        symbol="XBTUSD",
        exchange="bitmex",
        id=str(4_000_000_000 + number),
        price=61_234.5 + number % 100 / 10,
        amount=float(number % 50 + 1),
        side="buy",
        timestamp=ms_text((START_US + number * 700) // 1000),
        local_timestamp=us_text(START_US + number * 700),
    )


def book_change(number: int) -> BookChange:
    return BookChange(
        symbol="XBTUSD",
        exchange="bitmex",
        is_snapshot=False,
        bids=[BookLevel(61_234.0, number % 7), BookLevel(61_233.5, 3)],
        asks=[BookLevel(61_235.0, number % 9)],
        timestamp=ms_text((START_US + number * 700) // 1000),
        local_timestamp=us_text(START_US + number * 700),
    )


def make_events(router: Router) -> list[Event]:
    """Return the records as the sender hands them to a sink."""
    envelopes = Encoder("bench", Origin.REPLAY, META).encode(records(), START_US)
    delivery_ids = [f"bench-t3k9x2-{number}" for number in range(len(envelopes))]
    return address(envelopes, router, identities(envelopes), delivery_ids, 0.0)


def cost_us(send: Send, events: Sequence[Event], batch: int) -> float:
    """Return CPU microseconds per event, threads of the client included; the best of several."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        for first in range(0, len(events), batch):
            send(events[first : first + batch])
        best = min(best, time.process_time() - start)
    return best / len(events) * 1e6


def show(name: str, cost: float, target: str = "") -> None:
    print(f"{name:44} {cost:6.2f} µs {1e6 / cost:10,.0f} /s {target:>10}", flush=True)


@contextmanager
def opened(settings: BusSettings) -> Iterator[Sink]:
    """Open the sink of some settings."""
    sink = make_sink(settings, DELIVERY)
    sink.open()
    try:
        yield sink
    finally:
        sink.close(5)


def checked(sink: Sink) -> Send:
    """Return `send`, which ends the run unless everything was stored."""

    def send(events: Sequence[Event]) -> None:
        results = sink.send(events)
        if any(result.outcome is not Outcome.OK for result in results):
            raise SystemExit(f"not stored: {set(results)}")

    return send


def measure(settings: BusSettings, sizes: Sequence[int], target: str) -> None:
    """Print what the sink of some settings costs, by the size of batches."""
    events = make_events(settings.router())
    with opened(settings) as sink:
        send = checked(sink)
        send(events[:10])
        for size in sizes:
            name = f"{settings.bus}, batches of {size:,}"
            show(name, cost_us(send, events, size), target)


def measure_kafka() -> None:
    from tardis_machine.buses.kafka.settings import KafkaSettings

    with Kafka() as server:
        topic = server.create_topic("bronze", 4)
        measure(KafkaSettings(brokers=(server.address,), topic=topic), (1000, 4000), "≤ 2.5 µs")


def measure_redis() -> None:
    from tardis_machine.buses.redis.settings import RedisSettings

    with Redis(is_durable=False) as server:
        settings = RedisSettings(url=Secret(server.address), stream="bronze", max_length=50_000)
        measure(settings, (100, 500), "≤ 8 µs")
        events = make_events(settings.router())
        for name, send in redis_ways(server.address):
            show(f"redis, {name}, batches of 500", cost_us(send, events, 500))


def redis_ways(address: str) -> Iterator[tuple[str, Send]]:
    """Yield other ways of adding a batch in a transaction."""
    client = redis.Redis.from_url(address, socket_timeout=None, retry=Retry(NoBackoff(), 0))

    def words(event: Event) -> tuple[str | bytes, ...]:
        fields = ("payloadCase", event.series.case.camel, "dataType", event.series.data_type)
        ids = ("eventId", event.event_id, "deliveryId", event.delivery_id)
        return ("XADD", "other", "*", "data", event.data, *fields, *ids)

    def by_pipeline(events: Sequence[Event]) -> None:
        pipeline = client.pipeline(transaction=True)
        for event in events:
            pipeline.execute_command(*words(event))
        pipeline.execute()

    yield "pipeline of redis-py", by_pipeline
    connection = client.connection_pool.get_connection()

    def by_socket(events: Sequence[Event]) -> None:
        packed = [hiredis.pack_command(words(event)) for event in events]
        ends = hiredis.pack_command(("MULTI",)), hiredis.pack_command(("EXEC",))
        plain = connection._sock
        plain.sendall(b"".join([ends[0], *packed, ends[1]]))
        reader, left = hiredis.Reader(), len(events) + 2
        while left:
            reader.feed(plain.recv(65_536))
            while left and reader.gets() is not False:
                left -= 1

    yield "bare socket and hiredis", by_socket
    client.close()


def elsewhere(name: str) -> Callable[[], None]:
    """Return a measurement of `benchmarks.sinks_clients`, imported when it is run."""

    def measure() -> None:
        getattr(importlib.import_module("benchmarks.sinks_clients"), name)()

    return measure


BUSES = {
    "kafka": measure_kafka,
    "redis": measure_redis,
    "nats": elsewhere("measure_nats"),
    "kinesis": elsewhere("measure_kinesis"),
    "event-hubs": elsewhere("measure_event_hubs"),
}


def main() -> None:
    """Print the table."""
    lines = encode_lines(records()).splitlines()
    start = time.process_time()
    for line in lines:
        orjson.dumps(orjson.loads(line))
    calibration = (time.process_time() - start) / len(lines) * 1e6
    print(f"calibration: {calibration:.2f} µs per orjson round trip of the same records")
    for name in sys.argv[1:] or BUSES:
        BUSES[name]()


if __name__ == "__main__":
    main()
