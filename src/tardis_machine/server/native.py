"""`/ws-replay`: raw messages to clients that speak an exchange's own protocol.

Connections that name the same session are replayed together, in the order of recording. A session
collects subscriptions for a fixed time after its first connection, then starts; nothing is ever
sent back but market data.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from aiohttp import WSCloseCode

from tardis_machine.computed.combine import Merger
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import format_at, subscribe_readers
from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import Filter, ReplayRequest, as_client_wrote
from tardis_machine.model.time import Clock, parse_instant
from tardis_machine.server.guards.limits import check_symbols, streams_of
from tardis_machine.server.services import Services
from tardis_machine.server.settings import ServerSettings
from tardis_machine.server.websocket import WebSocket, WebSocketRefusedError
from tardis_machine.session.plan import plan_raw
from tardis_machine.session.raw import messages
from tardis_machine.session.run import raw_lines
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

FINISHED = "WS replay finished"
_MILLISECOND_DIGITS = 23


class Member:
    """One connection of a session, and what it subscribed to."""

    def __init__(self, websocket: WebSocket, clock: Clock, settings: ServerSettings) -> None:
        query = websocket.request.query
        self.websocket = websocket
        self.exchange = self._exchange(query.get("exchange"))
        self.start, self.end = query.get("from"), query.get("to")
        self.filters: list[Filter] | None = None
        self._symbols = 0
        self._settings = settings
        start_us = parse_instant(self.start or "") or 0
        self._readers = subscribe_readers(self.exchange, start_us, clock())
        wire_format = format_at(self.exchange, start_us, clock())
        self._replays_whole_feed = wire_format.replays_whole_feed
        websocket.on_text = self.subscribe

    @staticmethod
    def _exchange(name: str | None) -> Exchange:
        exchange = REGISTRY.get(name or "")
        if exchange is None or not exchange.has_mappers:
            raise RequestError(
                f"Exchange {as_client_wrote(name)} is not supported via /ws-replay Websocket API, "
                "please use HTTP streaming API instead."
            )
        return exchange

    def subscribe(self, text: str) -> None:
        """Add the filters of a native subscribe message; anything else is ignored."""
        for read_subscribe in self._readers:
            try:
                filters = read_subscribe(msgspec.json.decode(text))
            except Exception as error:
                log.debug("client message ignored", exchange=self.exchange.id, error=str(error))
                continue
            if self._replays_whole_feed and filters is not None:
                self.filters = []
                return
            # A message that names no channel, such as a ping, asks for nothing.
            if filters := [entry for entry in filters or () if entry.channel]:
                self._add(filters)
                return

    def stop_subscribing(self) -> None:
        """Ignore what the client sends from now on.

        Raises:
            RequestError: it subscribed to nothing, or to too much.
        """
        self.websocket.on_text = None
        check_symbols(self._symbols, self._settings)
        if self.filters is None:
            raise RequestError(
                "No subscriptions received for websocket connection " + self.options_text()
            )

    @property
    def streams(self) -> int:
        """Return how many streams this connection counts as."""
        return streams_of(symbols=self._symbols)

    def _add(self, filters: list[Filter]) -> None:
        self._symbols += sum(1 + len(entry.symbols or ()) for entry in filters)
        if self._symbols > self._settings.max_request_symbols:
            # The refusal comes with the start; what follows need not be kept.
            self.websocket.on_text = None
        else:
            self.filters = (self.filters or []) + filters

    def request(self) -> ReplayRequest:
        """Return the raw request this connection stands for."""
        filters: Any = msgspec.to_builtins(self.filters or [])
        return ReplayRequest(
            exchange=self.exchange.id, start=self.start, end=self.end, filters=filters
        )

    def options_text(self) -> str:
        """Return the connection's options as an error text shows them."""
        options = {"exchange": self.exchange.id, "from": self.start, "to": self.end}
        return msgspec.json.encode(options).decode()


class ReplaySession:
    """Connections replayed together."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._members: list[Member] = []
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._replay: asyncio.Task[None] | None = None
        self.has_started = False

    @property
    def has_members(self) -> bool:
        """Say whether any connection is still part of it."""
        return bool(self._members)

    async def take_part(self, member: Member) -> None:
        """Join, and wait for the end; the first member starts the clock, the last one stops it."""
        self._members.append(member)
        if self._replay is None:
            self._replay = asyncio.create_task(self._run(), name="ws-replay session")
        try:
            await asyncio.shield(self._finished)
        finally:
            self._members.remove(member)
            if not self._members:
                self._replay.cancel()

    async def _run(self) -> None:
        """Collect subscriptions, then replay; the outcome reaches every member."""
        try:
            await asyncio.sleep(self._services.settings.subscribe_seconds)
            self.has_started = True
            for member in self._members:
                member.stop_subscribing()
            members = tuple(self._members)
            more = sum(member.streams - 1 for member in members)
            with self._services.admission.admit(more):
                await self._replay_members(members)
        except asyncio.CancelledError:
            self._finished.cancel()
            raise
        except Exception as error:
            if self._members:
                self._finished.set_exception(error)
        else:
            self._finished.set_result(None)

    async def _replay_members(self, members: Sequence[Member]) -> None:
        session = self._services.session
        plans = [plan_raw(member.request()) for member in members]
        async with AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(aclosing(raw_lines(plan, session)))
                for plan in plans
            ]
            if len(streams) == 1:
                async for lines in streams[0]:
                    await self._send(members[0], messages(lines))
            else:
                async for index, batch in _merge(streams):
                    await self._send(members[index], batch)

    async def _send(self, member: Member, batch: list[bytes]) -> None:
        """Send to a member, unless it has left."""
        if member in self._members and not member.websocket.is_closed:
            await member.websocket.send(batch)


class ReplaySessions:
    """Sessions by key; without a key a connection gets its own."""

    def __init__(self) -> None:
        self._sessions: dict[str, ReplaySession] = {}

    async def serve(self, websocket: WebSocket, services: Services) -> str:
        """Serve one connection as a member of its session."""
        member = Member(websocket, services.clock, services.settings)
        key = websocket.request.query.get("session") or f"connection {id(websocket)}"
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = ReplaySession(services)
        if session.has_started:
            raise WebSocketRefusedError(
                WSCloseCode.INTERNAL_ERROR,
                "trying to add new WS connection to replay session that already started",
            )
        try:
            await session.take_part(member)
        finally:
            if self._sessions.get(key) is session and not session.has_members:
                del self._sessions[key]
        return FINISHED


async def _merge(
    streams: Sequence[AsyncIterator[list[bytes]]],
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Merge raw lines by millisecond; yield runs of messages with the stream they belong to."""
    merger: Merger[tuple[int, bytes], bytes] = Merger(len(streams))
    while not merger.is_done:
        while (index := merger.needs()) is not None:
            lines = await anext(streams[index], None)
            if lines is None:
                merger.finish(index)
            else:
                keys = [line[:_MILLISECOND_DIGITS] for line in lines]
                merger.offer(index, [(index, line) for line in lines], keys)
        for index, run in groupby(merger.take(), itemgetter(0)):
            yield index, messages([line for _, line in run])
