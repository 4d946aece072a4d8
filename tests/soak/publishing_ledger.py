"""Accounts for every event of a long run while it is read, in little memory.

The same minutes are replayed again and again, one response after another, by one publisher process
that never dies. So the count in a delivery id says which line of which response an event must be.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from tardis_machine.bronze.decode import Decoder
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tests.servers.readers import Received
from tests.soak.publishing_evidence import boot_and_number, delivery_id, key_of

PATIENCE_SECONDS = 120
PROBLEMS_KEPT = 10


class Ledger:
    """Checks events as they arrive.

    Args:
        body: the response that is published again and again.
        disorder: by how many places an event may come late within its key.
    """

    def __init__(self, body: bytes, disorder: int = 0) -> None:
        self._lines = body.splitlines()
        self._keys = [key_of(record) for record in decode_lines(body)]
        self._disorder = disorder
        self._counts = Counter(self._keys)
        self._places: list[int] = []
        """Place of each line among those of its key."""
        seen: Counter[object] = Counter()
        for key in self._keys:
            self._places.append(seen[key])
            seen[key] += 1
        self._decoder = Decoder()
        self._has = bytearray()
        self._has_grown = asyncio.Event()
        self._last: dict[object, int] = {}
        self.first_copies = 0
        self.duplicates = 0
        self.latest = 0
        """How many places late the latest event came."""
        self.problems: list[str] = []

    @property
    def keys(self) -> int:
        """Return how many keys there are."""
        return len(self._counts)

    def take(self, batch: Sequence[Received]) -> None:
        """Check some events, in their order."""
        lines = encode_lines(self._decoder.decode(each.value for each in batch)).splitlines()
        for received, line in zip(batch, lines, strict=True):
            number = boot_and_number(delivery_id(received))[1] - 1
            if line != self._lines[number % len(self._lines)]:
                self._complain(f"event {number + 1} is not the line it should be: {line!r}")
            if self._is_new(number):
                self.first_copies += 1
                self._check_order(number)
            else:
                self.duplicates += 1
        self._has_grown.set()

    def missing(self, events: int) -> int:
        """Return how many of so many events did not arrive."""
        return events - self.first_copies

    async def wait_for(self, events: int) -> None:
        """Wait until so many events have arrived; fail when none comes for long."""
        while self.missing(events):
            self._has_grown.clear()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._has_grown.wait()

    def _is_new(self, number: int) -> bool:
        if number >= len(self._has):
            self._has.extend(bytes(number + len(self._lines) - len(self._has)))
        is_new = not self._has[number]
        self._has[number] = 1
        return is_new

    def _check_order(self, number: int) -> None:
        turn, line = divmod(number, len(self._lines))
        key = self._keys[line]
        place = turn * self._counts[key] + self._places[line]
        last = self._last.get(key, -1)
        self._last[key] = max(place, last)
        late = last - place
        self.latest = max(self.latest, late)
        if late > self._disorder:
            self._complain(f"{key}: event {number + 1} came {late} places late")

    def _complain(self, text: str) -> None:
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(text)
