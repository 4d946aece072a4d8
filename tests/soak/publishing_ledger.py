"""Accounts for every event of a long run while it is read, in little memory.

The same minutes are replayed again and again, one response after another, by one publisher process
that never dies. So the count in a delivery id says which line of which response an event must be.
"""

import asyncio
from bisect import bisect
from collections.abc import Sequence

from tardis_machine.bronze.decode import Decoder
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tests.servers.readers import Received
from tests.soak.publishing_evidence import delivery_id, key_of

PATIENCE_SECONDS = 120
PROBLEMS_KEPT = 10
RECENT_IDS = 2000


class Ledger:
    """Checks events as they arrive.

    Args:
        body: the response that is published again and again.
        disorder: by how many places an event may come late within its key.
    """

    def __init__(self, body: bytes, disorder: int = 0) -> None:
        records = decode_lines(body)
        keys = [key_of(record) for record in records]
        # As the events give them: levels of the response may have the digits of the venue.
        self._key_of_line = dict(zip(encode_lines(records).splitlines(), keys, strict=True))
        self._keys = len(set(keys))
        self._disorder = disorder
        self._decoder = Decoder()
        self._seen: set[str] = set()
        self._has_grown = asyncio.Event()
        self._recent: dict[object, list[str]] = {}
        """The latest delivery ids of each key, sorted: they rise within a log."""
        self.duplicates = 0
        self.latest = 0
        """How many places late the latest event came."""
        self.problems: list[str] = []

    @property
    def keys(self) -> int:
        """Return how many keys there are."""
        return self._keys

    def take(self, batch: Sequence[Received]) -> None:
        """Check some events, in their order."""
        lines = encode_lines(self._decoder.decode(each.value for each in batch)).splitlines()
        for received, line in zip(batch, lines, strict=True):
            name = delivery_id(received)
            if line not in self._key_of_line:
                self._complain(f"event {name} is no line of the response: {line!r}")
            elif name in self._seen:
                self.duplicates += 1
            else:
                self._seen.add(name)
                self._check_order(self._key_of_line[line], name)
        self._has_grown.set()

    def missing(self, events: int) -> int:
        """Return how many of so many events did not arrive."""
        return events - len(self._seen)

    async def wait_for(self, events: int) -> None:
        """Wait until so many events have arrived; fail when none comes for long."""
        while self.missing(events):
            self._has_grown.clear()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._has_grown.wait()

    def _check_order(self, key: object, name: str) -> None:
        recent = self._recent.setdefault(key, [])
        place = bisect(recent, name)
        late = len(recent) - place
        recent.insert(place, name)
        del recent[:-RECENT_IDS]
        self.latest = max(self.latest, late)
        if late > self._disorder:
            self._complain(f"{key}: event {name} came {late} places late")

    def _complain(self, text: str) -> None:
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(text)
