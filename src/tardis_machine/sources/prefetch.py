"""Work done ahead of its consumer: in order, bounded, and ended with it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")

READY_AHEAD = 8
"""Results that took no time and wait for their consumer; more of them would gain nothing."""


@dataclass(frozen=True, slots=True)
class _Ready(Generic[T]):
    """A result that was there at once."""

    result: T


class Prefetch(Generic[T]):
    """Runs a producer ahead of one consumer and hands its results over in order.

    The producer calls `put` for results it has and `start` for results that take time. The first
    failure ends all work and is what the consumer gets next, even before results that are ready.
    Leaving the context cancels the work and waits until it has ended.
    """

    def __init__(self, produce: "Callable[[Prefetch[T]], Awaitable[None]]", max_ahead: int) -> None:
        self._produce = produce
        self._slots: asyncio.Queue[asyncio.Future[T] | _Ready[T] | BaseException | None]
        self._slots = asyncio.Queue(max_ahead)
        self._room = asyncio.Semaphore(READY_AHEAD)

    async def __aenter__(self) -> Self:
        self._runner = asyncio.create_task(self._run(), name="prefetch")
        self._runner.add_done_callback(self._finish)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._runner.cancel()
        await asyncio.wait([self._runner])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            slot = await self._slots.get()
            if slot is None:
                raise StopAsyncIteration
            if isinstance(slot, BaseException):
                raise slot
            if isinstance(slot, _Ready):
                self._room.release()
                return slot.result
            await asyncio.wait([slot])
            # A cancelled slot is the victim of a failure, which then is next in the queue.
            if not slot.cancelled():
                return slot.result()

    async def put(self, result: T) -> None:
        """Add a result, after waiting for room."""
        await self._room.acquire()
        await self._slots.put(_Ready(result))

    async def start(self, work: Coroutine[Any, Any, T]) -> None:
        """Start work whose result comes next, then wait for room."""
        await self._slots.put(self._group.create_task(work))

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as self._group:
            await self._produce(self)
            await self._slots.put(None)

    def _finish(self, runner: asyncio.Task[None]) -> None:
        if runner.cancelled():
            return
        error = runner.exception()
        if error is not None:
            while not self._slots.empty():
                self._slots.get_nowait()
            self._slots.put_nowait(_first_error(error))


def _first_error(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
