"""Channels that stop, and those that are only quiet."""

import pytest

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import feed_of
from tardis_machine.sources.live.connection import Connection
from tardis_machine.sources.live.errors import StaleConnectionError
from tardis_machine.sources.live.receiver import Receiver
from tardis_machine.sources.live.watch import ChannelWatch, watch_connection, watch_interval
from tardis_machine.telemetry.clock import system_clock


class SilentConnection(Connection):
    """A connection on which nothing came for a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @property
    def silent_seconds(self) -> float:
        return self._seconds


def receiver() -> Receiver:
    bitmex = REGISTRY["bitmex"]
    return Receiver(bitmex, feed_of(bitmex), {}, system_clock, lambda _: None, {})


def silence_until_stalled(pace_seconds: float, messages: int, limit: int = 2000) -> float | None:
    """Return after how long a silence a channel with this pace is called stalled."""
    watch, now = ChannelWatch(), 0.0
    for count in range(1, messages + 1):
        now += pace_seconds
        assert watch.look({"book": count}, now) is None
    for seconds in range(limit):
        if watch.look({"book": messages}, now + seconds) is not None:
            return float(seconds)
    return None


def test_lively_channel_is_missed_soon() -> None:
    assert silence_until_stalled(0.1, 100) == 31


def test_slow_channel_is_given_more_time() -> None:
    assert silence_until_stalled(20, 30) == 201


def test_channel_that_said_little_is_never_missed() -> None:
    assert silence_until_stalled(0.1, 5) is None


def test_one_channel_stalls_while_another_talks() -> None:
    watch = ChannelWatch()
    for second in range(100):
        assert watch.look({"trade": second, "book": second}, float(second)) is None
    stalled = [
        watch.look({"trade": 100 + second, "book": 99}, 100.0 + second) for second in range(40)
    ]
    assert stalled[-1] == "book"


def test_stall_counts_from_the_last_message_on() -> None:
    watch = ChannelWatch()
    for second in range(50):
        watch.look({"book": second}, float(second))
    assert watch.look({"book": 49}, 75.0) is None
    assert watch.look({"book": 50}, 78.0) is None
    assert watch.look({"book": 50}, 110.0) is None


async def test_connection_without_any_sign_of_life_is_dead() -> None:
    with pytest.raises(StaleConnectionError, match="no sign of life for 20 s"):
        await watch_connection(SilentConnection(20.5), receiver())


async def test_chosen_interval_without_data_ends_a_connection() -> None:
    silent = receiver()
    silent.take(b'{"info":"hello"}')
    # The first interval saw a message, the second none.
    with pytest.raises(StaleConnectionError, match=r"no data for 0\.05 s"):
        await watch_interval(silent, 0.05)
