"""What libraries keep for reuse, made anew after clients have left.

Python gives memory back by the megabyte, and one small object keeps all of it. What asyncio and the
HTTP library keep for reuse, and what the last clients of many left in caches and counters, is a few
hundred objects that lie all over the memory that the many needed. Made anew they lie together.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, Protocol

from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy, MultiDict, MultiDictProxy, istr
from yarl import URL

KEPT = 256
"""More than any of these libraries keeps of one kind."""

TIMERS = 256
"""So many cancelled timers let asyncio drop all that were cancelled."""


THREADS = 6
"""For files that are looked up aside."""


class Value(Protocol):
    """What a metric counts with."""

    def inc(self, amount: float) -> None:
        """Count more."""


class Reuse:
    """What the libraries of a server keep for reuse."""

    def __init__(self, values: Callable[[], Iterable[Value]] = tuple) -> None:
        """Renew these values, too: those of metrics."""
        self._values = values
        self._caches = list(_url_caches())

    async def prepare(self) -> None:
        """Make what is made once before clients come: the threads."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
        together = threading.Barrier(THREADS)
        await asyncio.gather(*(asyncio.to_thread(together.wait) for _ in range(THREADS)))

    def renew(self) -> None:
        """Let everything that is kept be made again, in one place."""
        for cache in self._caches:
            cache.cache_clear()
        _forget_names()
        _forget_timers()
        for make in (asyncio.get_running_loop().create_future().__await__, *_KINDS):
            _renew(make)
        self._renew_values()

    def _renew_values(self) -> None:
        freed = []
        for number, value in enumerate(self._values()):
            value.inc(0)
            # Takes the place that became free, so that the next value does not.
            freed.append(number + 0.5)


def _renew(make: Callable[[], object]) -> None:
    """Take all that is kept of one kind, and let new neighbours be kept instead."""
    scattered = [make() for _ in range(KEPT)]
    neighbours = [make() for _ in range(KEPT)]
    # Freed first, so that these are kept.
    del neighbours
    del scattered


def _fields() -> CIMultiDict[str]:
    return CIMultiDict({istr(name): name for name in "abcd"})


_KINDS: tuple[Callable[[], object], ...] = (
    partial(
        RawRequestMessage,
        *("GET", "/", HttpVersion11, CIMultiDictProxy(_fields()), ()),
        *(False, None, False, False, URL("/")),
    ),
    lambda: CIMultiDictProxy(_fields()),
    lambda: MultiDictProxy(MultiDict({"a": "a"})),
)


def _url_caches() -> Iterator[Any]:
    """Find the caches of the library that reads addresses; it empties only some of them itself."""
    kind = type(lru_cache(_forget_names))
    modules = [module for name, module in sys.modules.items() if name.startswith("yarl.")]
    return (each for module in modules for each in vars(module).values() if isinstance(each, kind))


def _forget_timers() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(TIMERS):
        loop.call_later(1, _forget_names).cancel()


def _forget_names() -> None:
    """Empty the cache of methods by name.

    Libraries in C make a new text for the name of every method they call. The cache keeps thousands
    of these, each in the middle of memory that is free otherwise.
    """
    clear = getattr(sys, "_clear_type_cache", None)
    if clear is not None:
        clear()
