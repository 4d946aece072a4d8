"""What can happen to a bus, each with the way back."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from tests.servers.event_hubs_faults import DETACH_FORCED, SERVER_BUSY, Hang
from tests.servers.event_hubs_process import EventHubsProcess
from tests.servers.faults import AbortAfter, AbortBefore, Delay
from tests.servers.kinesis import Kinesis
from tests.servers.kinesis_faults import (
    INTERNAL_FAILURE,
    THROTTLE_CALL,
    FailRecords,
    ShardLimit,
)
from tests.servers.redis import Redis
from tests.servers.tcp_proxy import Flow, TcpProxy

LONGEST_REST_SECONDS = 6.0
LONGEST_FAULT_SECONDS = 4.0
SLOW_SECONDS = 0.05


class Fault(NamedTuple):
    """Something that happens to a bus and is undone after a while."""

    name: str
    begin: Callable[[], object]
    end: Callable[[], object] = lambda: None


class Killable(Protocol):
    """A server that can be killed and frozen."""

    def start(self) -> object: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


def server_faults(server: Killable) -> list[Fault]:
    """Return what can happen to the process of a server."""
    return [
        Fault("server killed", server.kill, server.start),
        Fault("server frozen", server.pause, server.resume),
    ]


def network_faults(proxy: TcpProxy) -> list[Fault]:
    """Return what can happen on the way to a server."""
    return [
        Fault("connections cut", proxy.cut),
        Fault("connections forgotten", proxy.forget),
        Fault("connections refused", proxy.stop, proxy.start),
        Fault("bytes held", proxy.pause, proxy.resume),
        Fault("answers held", partial(proxy.pause, Flow.REPLIES), proxy.resume),
        Fault("answers swallowed", partial(proxy.swallow, Flow.REPLIES), proxy.heal),
        Fault("network slow", partial(proxy.delay, SLOW_SECONDS), proxy.heal),
    ]


def redis_faults(server: Redis) -> list[Fault]:
    """Return what a Redis server can refuse."""

    def limit(size: int) -> None:
        with server.client() as client:
            client.config_set("maxmemory", size)

    return [Fault("memory full", partial(limit, 1), partial(limit, 0))]


def kinesis_faults(kinesis: Kinesis, seed: int) -> list[Fault]:
    """Return what a Kinesis service can refuse, lose and slow down."""
    faults = kinesis.faults
    each_call = {
        "some records refused": FailRecords.share(0.2, seed),
        "calls throttled": THROTTLE_CALL,
        "internal failures": INTERNAL_FAILURE,
        "calls aborted": AbortBefore(),
        "answers lost": AbortAfter(),
        "answers late": Delay(0.5),
    }
    return [
        Fault("shards throttled", partial(faults.limit_shards, ShardLimit(200)), faults.heal),
        *(
            Fault(name, partial(faults.always, each), faults.heal)
            for name, each in each_call.items()
        ),
    ]


def event_hubs_faults(namespace: EventHubsProcess) -> list[Fault]:
    """Return what an Event Hubs service can refuse, lose and slow down."""
    each_send = {
        "server busy": SERVER_BUSY,
        "links detached": DETACH_FORCED,
        "sends aborted": AbortBefore(),
        "answers lost": AbortAfter(),
        "answers late": Delay(0.5),
        "sends hang": Hang(),
    }
    return [
        Fault(name, partial(namespace.always, each), namespace.heal)
        for name, each in each_send.items()
    ]


class Misfortune:
    """Lets one fault after another happen, with pauses between them."""

    def __init__(self, faults: Sequence[Fault], seed: int) -> None:
        self._faults = faults
        self._chance = random.Random(seed)
        self.counts: Counter[str] = Counter()

    async def run(self, seconds: float) -> None:
        """Go on for a while; what has begun by then is undone."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(self._chance.uniform(0.5, LONGEST_REST_SECONDS))
            fault = self._chance.choice(self._faults)
            await asyncio.to_thread(fault.begin)
            await asyncio.sleep(self._chance.uniform(0.1, LONGEST_FAULT_SECONDS))
            await asyncio.to_thread(fault.end)
            self.counts[fault.name] += 1
