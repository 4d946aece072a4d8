"""Several sockets of one exchange: records come in the order of the messages they are made of."""

from collections.abc import Sequence

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter
from tardis_machine.sources.live.listeners import FeedListener, Loss
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.live.source import LiveSource
from tests.contract.live_venues import TIME_MS, binance_venue
from tests.servers.exchanges import Exchanges, VenueSocket, running_exchanges, until

VENUE = binance_venue("binance-futures", "BTCUSDT", "ETHUSDT")
LIMITS = {"rateLimits": [{"rateLimitType": "REQUEST_WEIGHT", "limit": 1_000_000}]}
FILTERS = [Filter("forceOrder", ("btcusdt",)), Filter("depth", ("btcusdt",))]
ORDER = {"s": "BTCUSDT", "S": "BUY", "p": "1", "z": "1", "X": "FILLED", "T": TIME_MS}
LIQUIDATION = {
    "stream": "btcusdt@forceOrder",
    "data": {"e": "forceOrder", "E": TIME_MS, "o": ORDER},
}


class Witness(FeedListener):
    """Notes what comes, in its order."""

    wants_messages = True

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.told: list[str] = []

    def take_message(self, local_us: int, message: bytes) -> None:
        self.messages.append("liquidation" if b"forceOrder" in message else "book_change")

    def take_records(self, records: Sequence[Record]) -> None:
        self.told += [record.type for record in records]

    def lost(self, loss: Loss) -> None:
        self.told.append(f"lost by {loss.reason}")


async def sockets(exchanges: Exchanges) -> tuple[VenueSocket, VenueSocket]:
    """Return those that bring liquidations and books."""
    opened = [await exchanges.socket(number) for number in (1, 2)]
    opened.sort(key=lambda socket: "depth" in str(socket.frames))
    return opened[0], opened[1]


async def test_gap_does_not_overtake_what_another_socket_brought_before() -> None:
    witness = Witness()
    async with running_exchanges() as exchanges:
        exchanges.answers["exchangeInfo"] = LIMITS
        exchanges.answers["depth?"] = VENUE.snapshot("BTCUSDT", 10) | {"T": TIME_MS}
        settings = LiveSettings(exchange_gateway=exchanges.gateway)
        async with LiveSource(settings) as source:
            types = ["liquidation", "book_change"]
            source.subscribe(REGISTRY[VENUE.exchange], witness, types, FILTERS)
            others, books = await sockets(exchanges)
            await books.send_compact(VENUE.update("BTCUSDT", 9, 11))
            await until(lambda: witness.told == ["book_change"])
            seen = len(witness.messages)
            # All of them are at hand when the loop looks the next time.
            await others.send_compact(LIQUIDATION)
            await books.send_compact(
                VENUE.update("BTCUSDT", 11, 12), VENUE.update("BTCUSDT", 20, 21)
            )
            await until(lambda: len(witness.told) >= 4)
    came = witness.messages[seen : seen + 3]
    gap = 2 - came[::-1].index("book_change")
    assert witness.told[1:4] == [*came[:gap], "lost by gap", *came[gap + 1 :]]
