"""How much of the publisher's CPU is spent inside a client library, by a profile of its threads."""

import asyncio
import cProfile
import pstats
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

from tardis_machine.app.publishing.wiring import publisher_client
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.sinks.publisher.address import PublisherAddress
from tardis_machine.sinks.publisher.publisher import open_publisher
from tardis_machine.telemetry.clock import system_clock

OURS = "/src/tardis_machine/"
CLIENTS = ("/aiobotocore/", "/botocore/", "/aiohttp/", "/azure/")
ROUNDS = 30
"""So deep may the standard library call itself before it is clear whom it works for."""

Function: TypeAlias = tuple[str, int, str]


class ThreadProfiles:
    """Profiles every thread that is started while it is in use, in CPU time."""

    def __init__(self) -> None:
        self._profiles: list[cProfile.Profile] = []

    def __enter__(self) -> "ThreadProfiles":
        self._begin()
        threading.setprofile(lambda *_: self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        threading.setprofile(None)  # type: ignore[arg-type]
        self._profiles[0].disable()

    def _begin(self) -> None:
        profile = cProfile.Profile(time.thread_time)
        profile.enable()
        self._profiles.append(profile)

    def functions(self) -> dict[Function, Any]:
        """Return what is known of every function, over all threads."""
        merged = pstats.Stats(self._profiles[0])
        for profile in self._profiles[1:]:
            merged.add(profile)
        return dict(merged.stats)  # type: ignore[attr-defined]


def client_share(settings: PublishingSettings, folder: Path, chunks: list[bytes]) -> float:
    """Return the share of CPU time that is spent in the client library of the sink."""
    with ThreadProfiles() as profiles:
        asyncio.run(publish_here(settings, folder, chunks))
    functions = profiles.functions()
    shares = client_shares(functions)
    seconds: Counter[bool] = Counter()
    for function, (_, _, own_seconds, _, _) in functions.items():
        share = shares.get(function)
        if share is not None:
            seconds[True] += share * own_seconds
            seconds[False] += (1 - share) * own_seconds
    return seconds[True] / seconds.total()


async def publish_here(settings: PublishingSettings, folder: Path, chunks: list[bytes]) -> None:
    """Publish in this process, so that its threads can be looked at."""
    address = PublisherAddress(folder, folder, "bench")
    async with publisher_client(address, settings) as client:
        assert client is not None
        stream = client.stream(Origin.REPLAY, {}, waits=True)
        for chunk in chunks:
            await stream.publish(chunk)
        publisher = open_publisher(settings, folder, address.instance, system_clock)
        publisher.start()
        while any(bus.status().queued for bus in publisher.buses):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    for bus in publisher.buses:
        bus.stop(5)


def client_shares(functions: dict[Function, Any]) -> dict[Function, float]:
    """Return for each function how much of its time is the client's.

    The standard library works for whoever called it, through as many calls as it takes.
    """
    known = {function: share for function in functions if (share := _known_share(function)) >= 0}
    shares = dict(known)
    for _ in range(ROUNDS):
        for function, (_, _, _, _, callers) in functions.items():
            if function not in known:
                weights = [
                    (seconds[2], shares[caller])
                    for caller, seconds in callers.items()
                    if caller in shares
                ]
                total = sum(weight for weight, _ in weights)
                if total:
                    shares[function] = sum(weight * share for weight, share in weights) / total
    return shares


def _known_share(function: Function) -> float:
    if OURS in function[0]:
        return 0.0
    return 1.0 if any(library in function[0] for library in CLIENTS) else -1.0
