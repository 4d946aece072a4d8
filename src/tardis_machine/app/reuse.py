"""What libraries keep for reuse, made anew after clients have left.

Python gives memory back by the megabyte, and one small object keeps all of it. What asyncio and the
HTTP library keep for reuse, and what the last clients of many left in caches and counters, is a few
hundred objects that lie all over the memory that the many needed. Made anew they lie together, as
the free places between what is in use are taken meanwhile.
"""

import asyncio
import operator
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import repeat
from typing import Any, Protocol, TypeAlias
from weakref import WeakSet, WeakValueDictionary

import msgspec
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy, MultiDict, MultiDictProxy, istr
from yarl import URL

KEPT = 256
"""More than asyncio keeps of its iterators, and the HTTP library of requests."""

KEPT_TABLES = 64
"""More than the library of header fields keeps of tables of one size."""

KEPT_READS = 16
"""More than the HTTP library keeps of the state of calls that read a WebSocket."""

TIMERS = 256
"""So many cancelled timers let asyncio drop all that were cancelled."""

SIZES = range(48, 513, 16)
"""Python keeps objects of one of these sizes together; larger ones are not its allocator's."""

POOL_BYTES = 16 * 1024
POOL_HEAD_BYTES = 48
"""Python's allocator divides a megabyte into pools, each for places of one size."""

MAX_TAKEN_BYTES = 4 * 1024 * 1024
"""Free places of each size that are taken at most, so that it never takes long. What a crowd leaves
is less; more is free only while many streams come and go, and then nothing is given back anyway."""

BYTES_PER_ENTRY = 512
"""A table that has more than this for each of its entries was made for many more."""

NAMES = msgspec.json.encode(dict.fromkeys(map(str, range(4096)), 0))
"""More names than the JSON decoder keeps (512), so that each of those it has gives way."""

THREADS = 6
"""For files that are looked up aside."""

_BYTES_HEAD = sys.getsizeof(b"")

_pool = operator.floordiv
"""Numbers a pool by an address in it."""


Table: TypeAlias = "dict[Any, Any] | set[Any]"


class Value(Protocol):
    """What a metric counts with."""

    def inc(self, amount: float) -> None:
        """Count more."""


class Reuse:
    """What the libraries of a server keep for reuse."""

    def __init__(self, values: Callable[[], Iterable[Value]] = tuple) -> None:
        """Renew these values, too: those of metrics."""
        self._values = values
        self._caches = list(_caches())

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
        taken = _take_free_places()
        for table in _tables():
            _fit(table)
        scattered, neighbours = [], []
        iterator = asyncio.get_running_loop().create_future().__await__
        for make, count in ((iterator, KEPT), *_KINDS):
            scattered += [make() for _ in range(count)]
            neighbours += [make() for _ in range(count)]
        reads = [frames_queue().read() for _ in range(2 * KEPT_READS)]
        self._renew_values()
        msgspec.json.decode(NAMES)
        rfc822_formatted_time()
        # Freed first, so that the libraries keep these.
        for read in reversed(reads):
            # Nobody waits for it.
            read.close()
        neighbours.clear()
        scattered.clear()
        taken.clear()

    def _renew_values(self) -> None:
        freed = []
        for number, value in enumerate(self._values()):
            value.inc(0)
            # Takes the place that became free, so that the next value does not.
            freed.append(number + 0.5)


def frames_queue() -> Any:
    """Return a queue of WebSocket frames that belongs to no connection."""
    # Not part of the library's interface: where it has moved, only the renewal fails.
    from aiohttp._websocket.reader import WebSocketDataQueue
    from aiohttp.base_protocol import BaseProtocol

    loop = asyncio.get_running_loop()
    return WebSocketDataQueue(BaseProtocol(loop), 1, loop=loop)


def _take_free_places() -> list[object]:
    """Make objects of every size, which lie in the free places that others left between them.

    Whole pools stay free: Python takes the next one from the megabyte that has fewest, and that is
    one that stays in use anyway.
    """
    taken = _fill_pools(32, lambda count: list(map(float, range(count))))
    for size in SIZES:
        taken += _fill_pools(size, partial(_make_bytes, size - _BYTES_HEAD))
    return taken


def _fill_pools(size: int, make: Callable[[int], Sequence[object]]) -> list[object]:
    """Make objects of one size until a pool has no others; return those of all other pools."""
    taken: list[object] = []
    capacity = (POOL_BYTES - POOL_HEAD_BYTES) // size
    while len(taken) * size < MAX_TAKEN_BYTES:
        # As many as lie in two pools: where no others have places left, one pool is theirs.
        made = make(2 * capacity)
        held = Counter(map(_pool, map(id, made), repeat(POOL_BYTES)))
        if capacity in held.values():
            return [
                *taken,
                *(each for each in made if held[_pool(id(each), POOL_BYTES)] < capacity),
            ]
        taken += made
    return taken


def _make_bytes(length: int, count: int) -> list[bytes]:
    return list(map(bytes, repeat(length, count)))


_FEW, _MANY = [istr(name) for name in "abcd"], [istr(name) for name in "abcdefgh"]

_TABLES: tuple[Callable[[], object], ...] = (
    lambda: CIMultiDictProxy(CIMultiDict(dict.fromkeys(_FEW, ""))),
    lambda: CIMultiDictProxy(CIMultiDict(dict.fromkeys(_MANY, ""))),
    # Names that are spelled with capitals need larger tables.
    lambda: CIMultiDict(dict.fromkeys("ABCD", "")),
    lambda: CIMultiDict(dict.fromkeys("ABCDEFGH", "")),
    lambda: MultiDictProxy(MultiDict({"a": "a"})),
)

_REQUEST = partial(
    RawRequestMessage,
    *("GET", "/", HttpVersion11, CIMultiDictProxy(CIMultiDict(dict.fromkeys(_FEW, ""))), ()),
    *(False, None, False, False, URL("/")),
)

_KINDS: tuple[tuple[Callable[[], object], int], ...] = (
    (_REQUEST, KEPT),
    *((make, KEPT_TABLES) for make in _TABLES),
)


def _caches() -> Iterator[Any]:
    """Find the caches of the HTTP library and of the one that reads addresses."""
    kind = type(lru_cache(_forget_names))
    owners = ("yarl.", "aiohttp.")
    modules = [module for name, module in sys.modules.items() if name.startswith(owners)]
    return (each for module in modules for each in vars(module).values() if isinstance(each, kind))


def _tables() -> Iterator[Table]:
    """Find the tables of generators and connections that the event loop has as long as it runs.

    Those of tasks belong to the loops of all threads, so they stay as they are.
    """
    loop = asyncio.get_running_loop()
    for owner in (loop, getattr(loop, "_selector", None)):
        for kept in [*getattr(owner, "__dict__", {}).values()]:
            is_weak = isinstance(kept, WeakSet | WeakValueDictionary)
            table = getattr(kept, "data", None) if is_weak else kept
            if isinstance(table, dict | set):
                yield table


def _fit(table: Table) -> None:
    """Give back the room that a table had for many entries; one that is almost empty moves."""
    if len(table) <= 1 or sys.getsizeof(table) > BYTES_PER_ENTRY * len(table):
        entries: Any = table.copy()
        table.clear()
        table.update(entries)


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
