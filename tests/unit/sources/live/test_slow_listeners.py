"""Listeners that take long, such as many deep views: others have their turn in between."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter
from tardis_machine.sources.live.listeners import FeedListener
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.live.source import LiveSource
from tests.contract.live_venues import BITMEX
from tests.servers.exchanges import running_exchanges, until

MESSAGES = 4000


class Slow(FeedListener):
    """Takes a while for every record."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.rounds: list[int] = []
        self.round = 0

    def take_records(self, records: Sequence[Record]) -> None:
        self.sizes.append(len(records))
        self.rounds.append(self.round)
        time.sleep(0.0005 * len(records))

    async def count_rounds(self) -> None:
        while True:
            self.round += 1
            await asyncio.sleep(0)


async def test_bursts_get_small_and_others_run_between_them() -> None:
    slow = Slow()
    async with (
        running_exchanges() as exchanges,
        LiveSource(LiveSettings(exchange_gateway=exchanges.gateway)) as source,
    ):
        source.subscribe(REGISTRY["bitmex"], slow, ["trade"], [Filter("trade", ("XBTUSD",))])
        socket = await exchanges.socket(1)
        counting = asyncio.create_task(slow.count_rounds())
        await socket.send_compact(*[BITMEX.trade("XBTUSD")] * MESSAGES)
        await until(lambda: sum(slow.sizes) == MESSAGES, 120)
        counting.cancel()
    taken = Counter[int]()
    for number, size in zip(slow.rounds, slow.sizes, strict=True):
        taken[number] += size
    rounds = [*taken.values()]
    assert max(rounds[len(rounds) // 2 :]) <= 150
