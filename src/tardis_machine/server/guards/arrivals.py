"""Requests that have not arrived completely: how much of them a process holds."""

FREE_BYTES = 16 * 1024
"""What every connection may send, so that large requests cannot keep small ones out."""

MAX_ARRIVING_BYTES = 64 * 1024 * 1024


class Arrivals:
    """Bytes of unfinished requests over all connections, beyond those that are free."""

    def __init__(self, max_bytes: int = MAX_ARRIVING_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held = 0

    def begin(self) -> "Arrival":
        """Return the account of a new connection."""
        return Arrival(self)

    def change(self, size_bytes: int) -> bool:
        """Count more, or less; say whether that is not too much."""
        self._held += size_bytes
        return self._held <= self._max_bytes


class Arrival:
    """Bytes of one connection's unfinished request."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._received = 0

    def add(self, size_bytes: int) -> bool:
        """Count what arrived; say whether it may be kept."""
        before = self._counted
        self._received += size_bytes
        added = self._counted - before
        return not added or self._arrivals.change(added)

    def clear(self) -> None:
        """Forget a request that is complete, or gone."""
        self._arrivals.change(-self._counted)
        self._received = 0

    @property
    def _counted(self) -> int:
        return max(0, self._received - FREE_BYTES)
