"""Read Redis Streams: pages of entries between two ids.

A position is the id of an entry and the number of entries that the stream had ever got with it. A
stream that was trimmed right up to what was read has lost nothing, and only this number shows it.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from redis.exceptions import RedisError

from tardis_machine.buses.redis.client import Link, connection_options, pack
from tardis_machine.buses.redis.errors import not_connected
from tardis_machine.buses.redis.server import read_facts
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.redis.topology import Topology
from tardis_machine.buses.results import Outcome
from tardis_machine.lake.buses.client import BusClient, Loss, Page, Planner, ReadPolicy, Span
from tardis_machine.lake.buses.names import StreamNames
from tardis_machine.lake.buses.planning import LanePlanner
from tardis_machine.lake.buses.positions import Lane, Position, Range
from tardis_machine.lake.buses.redis.streams import EntryId, StreamState, entry_rows
from tardis_machine.lake.errors import BusError, BusUnavailableError
from tardis_machine.model.errors import SinkUnavailableError

PAGE_ENTRIES = 5000
COUNTED_ENTRIES = 10_000
"""Entries that one call of the script counts; the server does nothing else meanwhile."""
SCAN_SECONDS = 10.0
SCANNED_KEYS = 1000

# The id of the n-th entry, without sending the entries.
COUNT_SCRIPT = """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
if #found == 0 then return false end
return {found[#found][1], #found}
"""
NO_SUCH_KEY = "no such key"


class RedisBus:
    """Redis Streams, read as the settings of publishing name them."""

    name = RedisSettings.bus

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings

    @property
    def endpoint(self) -> str:
        """Return the server and the database, or the master of the sentinels; without logins."""
        options = connection_options(self._settings)
        where = self._settings.sentinel_master or options.get("path")
        return f"{where or '{host}:{port}'.format(**options)}/{options.get('db') or 0}"

    def connect(self) -> "RedisClient":
        """Return a client; it connects when it is used."""
        return RedisClient(self._settings)

    def planner(self, policy: ReadPolicy) -> Planner:
        """Return what plans batches."""
        return LanePlanner(self.connect(), policy)


class RedisClient(BusClient):
    """Reads streams of one server or cluster."""

    def __init__(self, settings: RedisSettings) -> None:
        self._names = StreamNames.of(settings.destinations)
        self._data_field = settings.data_field.encode()
        self._servers = Servers(settings)
        self._found: tuple[str, ...] = ()
        self._found_at: float | None = None
        self._states: dict[Lane, StreamState] = {}

    def close(self) -> None:
        """Close the connections."""
        self._servers.close()

    def spans(self) -> Mapping[Lane, Span]:
        """Ask for the state of every stream that exists."""
        names = dict.fromkeys((*self._names.literals, *self._matching()))
        states = {Lane(name): self._state(name) for name in names}
        self._states = {lane: state for lane, state in states.items() if state is not None}
        return {lane: state.span for lane, state in self._states.items()}

    def distance(self, start: Position, end: Position) -> int:
        """Return how many entries were added between two positions."""
        return max(0, int(end["added"]) - int(start["added"]))

    def is_before(self, one: Position, other: Position) -> bool:
        """Compare how many entries had been added."""
        return bool(one["added"] < other["added"])

    def loss(self, lane: Lane, start: Position, span: Span) -> Loss | None:
        """Compare what was added since with what is still there."""
        state, entry = self._states[lane], EntryId.parse(start["id"])
        if state.added < start["added"]:
            return Loss(state.added, is_new_lane=True)
        if state.is_gone_after(entry):
            lost = span.oldest["added"] - start["added"]
            return Loss(abs(lost), is_new_lane=lost < 0) if lost else None
        is_deleted = state.max_deleted > max(entry, EntryId.parse(start["deleted"]))
        return Loss(1) if is_deleted else None

    def advance(self, lane: Lane, start: Position, rows: int) -> Position:
        """Let the server count entries, in steps that do not stop it for long."""
        stream, last, counted = lane.stream, start["id"], 0
        while counted < rows:
            step = min(rows - counted, COUNTED_ENTRIES)
            found = self._servers.ask(stream, "EVAL", COUNT_SCRIPT, 1, stream, f"({last}", step)
            if found is None:
                break
            last, counted = found[0].decode(), counted + found[1]
        return {**start, "id": last, "added": start["added"] + counted}

    def cut(self, wanted: Range, parts: int) -> list[Range]:
        """Cut at ids that are evenly spaced in time, which costs the server nothing."""
        first = self._page(wanted.lane.stream, wanted.start["id"], wanted.end["id"], 1)
        if not first:
            return [wanted]
        from_ms = EntryId.parse(first[0][0].decode()).milliseconds
        to_ms = EntryId.parse(wanted.end["id"]).milliseconds
        times = {from_ms + (to_ms - from_ms) * part // parts for part in range(1, parts)}
        # So many were added before it, and possibly more that were not counted.
        added = wanted.start["added"]
        inner = [{"id": f"{time_ms}-0", "added": added} for time_ms in sorted(times - {from_ms})]
        if not inner:
            return [wanted]
        places = [wanted.start, *inner, wanted.end]
        return [Range(wanted.lane, one, other, None) for one, other in pairwise(places)]

    def read(self, wanted: Range) -> Iterator[Page]:
        """Read page after page; where entries are not counted, check each page for trimming."""
        stream, end, position = wanted.lane.stream, wanted.end["id"], dict(wanted.start)
        while True:
            if wanted.rows is None:
                entries, lost = self._checked_page(stream, position, end)
            else:
                entries, lost = self._page(stream, position["id"], end, PAGE_ENTRIES), 0
            if entries:
                position["id"] = entries[-1][0].decode()
                position["added"] += len(entries)
            rows = entry_rows(RedisSettings.bus, wanted.lane, entries, self._data_field)
            yield Page(rows, dict(position), lost)
            if len(entries) < PAGE_ENTRIES:
                return

    def _page(self, stream: str, start: str, end: str, count: int) -> list[Any]:
        found: list[Any] = self._servers.ask(stream, *_page_command(stream, start, end, count))
        return found

    def _checked_page(self, stream: str, position: Position, end: str) -> tuple[list[Any], int]:
        """Return a page, and 1 when entries right before it were gone at that moment."""
        reply, entries = self._servers.ask_together(
            stream,
            ("XINFO", "STREAM", stream),
            _page_command(stream, position["id"], end, PAGE_ENTRIES),
        )
        state = StreamState.parse(reply)
        is_gone = state.is_gone_after(EntryId.parse(position["id"]))
        return entries, int(is_gone and state.removed > position["added"])

    def _state(self, stream: str) -> StreamState | None:
        try:
            return StreamState.parse(self._servers.ask(stream, "XINFO", "STREAM", stream))
        except BusError as error:
            if NO_SUCH_KEY in str(error):
                return None
            raise

    def _matching(self) -> tuple[str, ...]:
        """Return streams whose names match a template; the search is repeated at intervals."""
        now = time.monotonic()
        is_fresh = self._found_at is not None and now - self._found_at < SCAN_SECONDS
        if self._names.globs and not is_fresh:
            found = {name for glob in self._names.globs for name in self._servers.scan(glob)}
            self._found = tuple(sorted(filter(self._names.match, found)))
            self._found_at = now
        return self._found


def _page_command(stream: str, start: str, end: str, count: int) -> tuple[str | int, ...]:
    return ("XRANGE", stream, f"({start}", end, "COUNT", count)


class Servers:
    """Sends commands to the server of a stream."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._topology = Topology(settings)
        self._seed: Link | None = None

    def ask(self, stream: str, *words: str | int) -> Any:
        """Return the reply to one command."""
        with self._explained():
            return self._link(stream).ask(*words)

    def ask_together(self, stream: str, *commands: tuple[str | int, ...]) -> list[Any]:
        """Return the replies to commands between which nothing else happens."""
        packed = [pack(words) for words in (("MULTI",), *commands, ("EXEC",))]
        with self._explained():
            link = self._link(stream)
            link.connect()
            link.write(b"".join(packed))
            deadline = time.monotonic() + self._settings.request_timeout_ms / 1000
            replies, failure = link.read(len(packed), deadline)
            for error in (failure, *replies):
                if isinstance(error, RedisError):
                    raise error
        result: list[Any] = replies[-1]
        return result

    def scan(self, glob: str) -> Iterator[str]:
        """Yield the streams whose names match, of all servers."""
        with self._explained():
            for link in self._masters():
                cursor = b"0"
                while True:
                    words = ("MATCH", glob, "COUNT", SCANNED_KEYS, "TYPE", "stream")
                    cursor, names = link.ask("SCAN", cursor, *words)
                    yield from (name.decode() for name in names)
                    if cursor == b"0":
                        break

    def close(self) -> None:
        """Close all connections."""
        self._topology.close()
        self._seed = None

    def _link(self, stream: str) -> Link:
        self._open()
        return self._topology.link(stream)

    def _open(self) -> Link:
        if self._seed is None:
            seed = self._topology.open()
            if self._settings.cluster == "auto" and read_facts(seed).is_cluster:
                self._topology.join_cluster()
            self._seed = seed
        return self._seed

    def _masters(self) -> list[Link]:
        seed = self._open()
        if not self._topology.is_cluster:
            return [seed]
        options = connection_options(self._settings)
        masters = {
            (master[0].decode() or seed.where.rpartition(":")[0], int(master[1]))
            for _, _, master, *_ in seed.ask("CLUSTER", "SLOTS")
        }
        return [Link({**options, "host": host, "port": port}) for host, port in sorted(masters)]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise transient or permanent errors, and look up servers again after a failure."""
        try:
            yield
        except SinkUnavailableError as error:
            self.close()
            raise BusUnavailableError(str(error)) from error
        except RedisError as error:
            result = not_connected(error)
            if result.outcome is not Outcome.TRANSIENT:
                raise BusError(f"Redis rejected the read: {error}") from error
            self.close()
            raise BusUnavailableError(f"Redis is unavailable: {error}") from error
