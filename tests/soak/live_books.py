"""What a client of a live stream knows: its books, compared with the truth, and what it saw."""

import asyncio
import json
from collections import defaultdict
from typing import Any

import aiohttp

Book = tuple[dict[float, float], dict[float, float]]
Series = tuple[str, str, str]
"""Exchange, symbol and type: the order within is promised."""

IGNORED = {"symbols", "subSequentErrorsCount"}
"""What a client is told in words of its own."""


def series_of(record: dict[str, Any]) -> Series:
    return record["exchange"], record.get("symbol", ""), record["type"]


def digest(record: dict[str, Any]) -> int:
    """Return a number for what a record says: a soak has too many to keep them."""
    kept = {name: value for name, value in record.items() if name not in IGNORED}
    # Clients get levels with the digits of the venue, 1 or 1.0; events have numbers.
    by_value = json.loads(json.dumps(kept), parse_int=float)
    return hash(json.dumps(by_value, sort_keys=True))


class LiveBooks:
    """Follows one stream.

    Args:
        exchange: whose.
        symbols: as the request names them.
    """

    def __init__(self, exchange: str, symbols: list[str]) -> None:
        self.exchange = exchange
        self.symbols = symbols
        self.seen: dict[Series, list[int]] = defaultdict(list)
        self.problems: list[str] = []
        self._books: dict[str, Book] = {}
        self._last: dict[str, str] = {}
        """When each book changed last, by the venue's time; all changes of one time are one."""
        self._asked: dict[str, asyncio.Future[tuple[str, Book]]] = {}

    async def run(self, url: str) -> None:
        """Read until cancelled."""
        request = {
            "exchange": self.exchange,
            "symbols": self.symbols,
            "dataTypes": ["trade", "book_change"],
            "withDisconnectMessages": True,
            "withErrorMessages": True,
        }
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(
                url, params={"options": json.dumps([request])}, max_msg_size=0
            ) as socket,
        ):
            async for message in socket:
                self.take(json.loads(message.data))
            self.problems.append(f"{self.exchange}: the stream ended with {socket.close_code}")

    def take(self, record: dict[str, Any]) -> None:
        """Take a record."""
        self.seen[series_of(record)].append(digest(record))
        if record["type"] == "disconnect":
            # A lost book begins with a snapshot; that of another socket goes on as it is.
            for symbol in record.get("symbols", self.symbols):
                self._last.pop(symbol.upper(), None)
        elif record["type"] == "book_change":
            self._change(record)

    def count(self, type_: str) -> int:
        return sum(len(seen) for series, seen in self.seen.items() if series[2] == type_)

    async def compare(self, symbol: str, gateway: str, seconds: float) -> str | None:
        """Compare a book with the truth when it is known next; return what differs."""
        asked = self._asked.get(symbol.upper())
        if asked is None or asked.done():
            asked = self._asked[symbol.upper()] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                time, book = await asyncio.shield(asked)
        except TimeoutError:
            return f"{self.exchange} {symbol}: no book for {seconds:g} s"
        url = f"{gateway}/truth/{self.exchange}/{symbol}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, params={"timestamp": time}) as response,
        ):
            answer = await response.json()
        if response.status != 200:
            return f"{self.exchange} {symbol}: {answer}"
        truth = tuple(
            {float(price): float(amount) for price, amount in answer[side]}
            for side in ("bids", "asks")
        )
        return None if truth == book else f"{self.exchange} {symbol}: differs at {time}"

    def _change(self, record: dict[str, Any]) -> None:
        symbol, time = record["symbol"].upper(), record["timestamp"]
        if record["isSnapshot"]:
            self._books[symbol] = ({}, {})
            # It is as late as the clock of the venue: only updates date a book.
            self._last.pop(symbol, None)
        elif symbol not in self._books:
            self.problems.append(f"{self.exchange} {symbol}: an update without a book at {time}")
            return
        else:
            self._answer(symbol, time)
            self._last[symbol] = time
        for side, name in zip(self._books[symbol], ("bids", "asks"), strict=True):
            for level in record[name]:
                if level["amount"]:
                    side[level["price"]] = level["amount"]
                else:
                    side.pop(level["price"], None)

    def _answer(self, symbol: str, time: str) -> None:
        """Tell whoever asked the book as it was before a later time began."""
        last = self._last.get(symbol)
        asked = self._asked.get(symbol)
        if last is not None and time > last and asked is not None and not asked.done():
            bids, asks = self._books[symbol]
            asked.set_result((last, (dict(bids), dict(asks))))
