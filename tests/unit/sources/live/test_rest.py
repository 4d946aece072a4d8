"""REST calls to exchanges: retries, limits, and what is said when they fail."""

import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tardis_machine.exchanges.feeds import RestCalls, WeightBudget
from tardis_machine.model.time import MINUTE_US, SECOND_US
from tardis_machine.sources.context import Timing
from tardis_machine.sources.live.errors import ExchangeError
from tardis_machine.sources.live.rest.client import RestClient
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.telemetry.metrics import Metrics
from tests.servers.exchanges import Exchanges, running_exchanges

START_US = 1000 * MINUTE_US


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now_us = START_US
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now_us += int(seconds * SECOND_US)

    @property
    def timing(self) -> Timing:
        return Timing(clock=lambda: self.now_us, sleep=self.sleep)


@pytest.fixture
async def exchanges() -> AsyncIterator[Exchanges]:
    async with running_exchanges() as running:
        yield running


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def client(exchanges: Exchanges, time: Time) -> AsyncIterator[RestClient]:
    settings = LiveSettings(exchange_gateway=exchanges.gateway)
    async with aiohttp.ClientSession() as session:
        yield RestClient(session, settings, None, time.timing, Metrics().live)


def calls(weight: int = 1, reserve: int = 0, limit: int | None = None) -> RestCalls:
    return RestCalls(
        url=lambda symbol: f"https://venue.example.com/value?symbol={symbol}",
        wrap=lambda symbol, body: symbol.encode() + b" " + body,
        weight=weight,
        reserve=reserve,
        budget=WeightBudget(
            limit_url="https://venue.example.com/limits",
            read_limit=lambda body: int(json.loads(body)["limit"]),
            used_header="x-used",
            limit=limit,
        ),
    )


async def test_answer_becomes_a_message(client: RestClient, exchanges: Exchanges) -> None:
    exchanges.answers = {"limits": {"limit": 10}, "value?symbol=A": {"v": 1}}
    assert await client.fetch(calls(), "A") == (b'A {"v": 1}', False)
    assert exchanges.requests == [
        "venue.example.com/limits",
        "venue.example.com/value?symbol=A",
    ]


async def test_limit_is_learned_once(client: RestClient, exchanges: Exchanges) -> None:
    exchanges.answers = {"limits": {"limit": 1000}, "value": {}}
    for _ in range(3):
        await client.fetch(calls(), "A")
    assert exchanges.requests.count("venue.example.com/limits") == 1


async def test_used_up_minute_makes_requests_wait_for_the_next(
    client: RestClient, exchanges: Exchanges, time: Time
) -> None:
    exchanges.answers = {"value": {}}
    paid = [await client.fetch(calls(weight=40, reserve=20, limit=100), "A") for _ in range(3)]
    assert [has_waited for _, has_waited in paid] == [False, False, True]
    assert time.sleeps == [61.0]
    assert time.now_us > START_US + MINUTE_US


async def test_limit_below_a_single_request_stops_nothing(
    client: RestClient, exchanges: Exchanges, time: Time
) -> None:
    exchanges.answers = {"value": {}}
    await client.fetch(calls(weight=50, reserve=20, limit=10), "A")
    assert time.sleeps == []


@pytest.mark.parametrize("status", [400, 404])
async def test_refusal_is_final(client: RestClient, exchanges: Exchanges, status: int) -> None:
    exchanges.answers = {"value": (status, {"msg": "Invalid symbol."})}
    with pytest.raises(ExchangeError, match=rf"status code {status}.*Invalid symbol"):
        await client.fetch(calls(limit=10), "A")
    assert len(exchanges.requests) == 1


@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_passing_trouble_is_tried_again(
    client: RestClient, exchanges: Exchanges, time: Time, status: int
) -> None:
    exchanges.answers = {"value": (status, {})}
    with pytest.raises(ExchangeError, match=f"status code {status}"):
        await client.fetch(calls(limit=10), "A")
    assert len(exchanges.requests) == 3
    if status == 429:
        assert min(time.sleeps) >= 16


async def test_ban_holds_for_all_requests_of_the_venue(
    client: RestClient, exchanges: Exchanges, time: Time
) -> None:
    exchanges.answers = {"value": (418, {})}
    with pytest.raises(ExchangeError) as caught:
        await client.fetch(calls(limit=1000), "A")
    assert caught.value.wait_seconds == 120
    exchanges.answers = {"value": {}}
    await client.fetch(calls(limit=1000), "B")
    assert time.sleeps == [120]


async def test_nobody_there_is_an_error(time: Time, closed_port: int) -> None:
    settings = LiveSettings(exchange_gateway=f"http://127.0.0.1:{closed_port}")
    async with aiohttp.ClientSession() as session:
        client = RestClient(session, settings, None, time.timing, Metrics().live)
        with pytest.raises(ExchangeError, match=r"No answer from https://venue\.example\.com"):
            await client.fetch(calls(limit=10), "A")
