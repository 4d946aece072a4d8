"""Measure the sinks of NATS, Kinesis and Event Hubs for `benchmarks.sinks`.

The stand-in servers of Kinesis and Event Hubs are slow, so few events are sent. What counts there
is how the CPU is shared between our code and the client library.
"""

import cProfile
import pstats
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from benchmarks.sinks import DELIVERY, ROUNDS, Send, checked, make_events, show
from tardis_machine.buses.settings import BusSettings
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.registry import make_sink
from tests.servers.event_hubs_process import EventHubsProcess
from tests.servers.kinesis import Kinesis
from tests.servers.nats import Nats

FEW_EVENTS = 4000
FEW_ROUNDS = 3
SYMBOLS = 50
OURS = "tardis_machine"

Clock = Callable[[], float]


def renewed(events: Sequence[Event], number: int) -> list[Event]:
    """Return the same events, accepted once more: streams drop what they know."""
    return [
        msgspec.structs.replace(event, delivery_id=f"{event.delivery_id}-{number}")
        for event in events
    ]


def spread(events: Sequence[Event]) -> list[Event]:
    """Return a few of the events, with many keys as a venue has them."""
    routes = [
        msgspec.structs.replace(events[0].route, key=f"bitmex|S{number}|trade")
        for number in range(SYMBOLS)
    ]
    return [
        msgspec.structs.replace(event, route=routes[number % SYMBOLS])
        for number, event in enumerate(events[:FEW_EVENTS])
    ]


@contextmanager
def opened(sink: Sink) -> Iterator[Sink]:
    sink.open()
    try:
        yield sink
    finally:
        sink.close(5)


def best_us(send: Send, events: Sequence[Event], batch: int, clock: Clock, rounds: int) -> float:
    """Return CPU microseconds per event; the best of several rounds."""
    best = float("inf")
    for number in range(rounds):
        fresh = renewed(events, number)
        start = clock()
        for first in range(0, len(fresh), batch):
            send(fresh[first : first + batch])
        best = min(best, clock() - start)
    return best / len(events) * 1e6


def measure_nats() -> None:
    from tardis_machine.buses.nats.settings import NatsSettings
    from tardis_machine.sinks.nats.sink import NatsSink

    with Nats() as server:
        for is_fast, name in ((True, "blocks of commands"), (False, "public calls of nats-py")):
            settings = NatsSettings(
                servers=(server.address,),
                subject=f"bronze.{is_fast}",
                stream=f"bronze-{is_fast}",
                create_stream=True,
                stream_storage="memory",
                stream_max_bytes=100_000_000,
            )
            with opened(NatsSink(settings, DELIVERY, is_fast=is_fast)) as sink:
                events = make_events(settings.router())
                cost = best_us(checked(sink), events, 1024, time.process_time, ROUNDS)
            show(f"nats, {name}, batches of 1,024", cost, "≤ 18 µs" if is_fast else "")


def measure_kinesis() -> None:
    from tardis_machine.buses.kinesis.settings import KinesisSettings

    with Kinesis() as server:
        for packing in ("off", "kpl"):
            settings = KinesisSettings(
                stream=f"bronze-{packing}",
                create_stream="4",
                region="us-east-1",
                access_key_id="AKIDBENCH",
                secret_access_key=Secret("secret"),
                endpoint_url=server.address,
                aggregation=packing,  # type: ignore[arg-type]
                max_shard_rate=0,
            )
            # The proxy before the server is a thread of this process; the client is not.
            measure_few(settings, f"kinesis, aggregation {packing}", time.thread_time)


def measure_event_hubs() -> None:
    from tardis_machine.buses.event_hubs.settings import EventHubsSettings

    with EventHubsProcess() as server:
        for partitioning in ("key", "client"):
            settings = EventHubsSettings(
                connection_string=Secret(server.address),
                event_hub_name=server.create_hub(f"bronze-{partitioning}", 4),
                partitioning=partitioning,  # type: ignore[arg-type]
                max_in_flight=1,
            )
            measure_few(settings, f"event-hubs, partitioning {partitioning}", time.process_time)


def measure_few(settings: BusSettings, name: str, clock: Clock) -> None:
    """Print what a sink costs, and whose code it is."""
    with opened(make_sink(settings, settings.resolve(DELIVERY))) as sink:
        events = spread(make_events(settings.router()))
        send = checked(sink)
        send(events[:SYMBOLS])
        batch = sink.max_batch_events
        show(name, best_us(send, events, batch, clock, FEW_ROUNDS))
        shares = cpu_shares(lambda: send(renewed(events, -1)))
    total = sum(shares.values())
    text = ", ".join(f"{who} {share / total:.0%}" for who, share in shares.most_common(5))
    print(f"  of that, profiled: {text}", flush=True)


def cpu_shares(call: Callable[[], object]) -> "Counter[str]":
    """Return CPU seconds by package, of this thread and those that the call starts."""
    profiles: list[cProfile.Profile] = []

    def enable(*_: object) -> None:
        # The first event of a new thread: from here on its own profiler takes over.
        profiles.append(cProfile.Profile(time.thread_time))
        profiles[-1].enable()

    threading.setprofile(enable)
    try:
        enable()
        call()
        profiles[0].disable()
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    shares: Counter[str] = Counter()
    for profile in profiles:
        profile.create_stats()
        for function, entry in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
            add_share(shares, function, entry)
    return shares


def add_share(shares: "Counter[str]", function: tuple[str, int, str], entry: tuple) -> None:  # type: ignore[type-arg]
    """Add the time of a function to its package; a builtin belongs to whoever calls it."""
    _, _, seconds, _, callers = entry
    if function[0] != "~":
        shares[package(function[0])] += seconds
        return
    for caller, (_, _, part, _) in callers.items():
        shares[package(caller[0])] += part


def package(path: str) -> str:
    """Return the top-level package that a file belongs to."""
    for mark in ("/site-packages/", "/src/"):
        _, found, inside = path.partition(mark)
        if found:
            return inside.partition("/")[0]
    return "benchmark" if "benchmarks" in path else "standard library"
