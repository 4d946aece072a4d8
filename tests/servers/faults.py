"""Faults that every server with a plan knows, and the plan itself."""

from collections import deque
from typing import Generic, TypeVar

import msgspec


class Pass(msgspec.Struct, frozen=True, tag=True):
    """Do nothing to this request: a place in a plan between two faults."""


class AbortBefore(msgspec.Struct, frozen=True, tag=True):
    """Close the connection, or reset it; nothing is stored."""

    is_reset: bool = False


class AbortAfter(msgspec.Struct, frozen=True, tag=True):
    """Store everything, then close the connection, or reset it, instead of answering."""

    is_reset: bool = False


class Delay(msgspec.Struct, frozen=True, tag=True):
    """Store everything and answer late."""

    seconds: float


Fault = TypeVar("Fault")


class FaultPlan(Generic[Fault]):
    """Faults for the next requests, one each, and one for all that follow."""

    def __init__(self) -> None:
        self._next: deque[Fault] = deque()
        self._always: Fault | Pass = Pass()

    def extend(self, faults: tuple[Fault, ...]) -> None:
        """Add faults for the next requests."""
        self._next.extend(faults)

    def repeat(self, fault: Fault) -> None:
        """Use a fault for every request that no planned one is left for."""
        self._always = fault

    def take(self) -> Fault | Pass:
        """Return what shall happen to the request at hand."""
        return self._next.popleft() if self._next else self._always

    def clear(self) -> None:
        """Forget all faults."""
        self._next.clear()
        self._always = Pass()
