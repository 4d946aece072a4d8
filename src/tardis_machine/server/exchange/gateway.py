"""The addresses of the venues on one port: `/<venue host>/<path>` as WebSocket or HTTP."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from aiohttp import WSMessage, WSMsgType, web

from tardis_machine.server.exchange.clients import Clients
from tardis_machine.server.exchange.connection import Address, Connection
from tardis_machine.server.exchange.injector import Injector
from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.server.exchange.rest import Answer, Rest
from tardis_machine.server.exchange.session import Markets, Session
from tardis_machine.server.exchange.venues import Protocol

MAX_INCOMING_BYTES = 1024 * 1024
_SHORTEST_ANSWER_SECONDS, _LONGEST_ANSWER_SECONDS = 0.005, 0.03
"""How long an HTTP answer is under way: a snapshot arrives later than it was taken."""


@dataclass(frozen=True)
class Exchange:
    """One simulated exchange with its markets and its protocol."""

    id: str
    markets: Markets[Any]
    protocol: Protocol
    rest: Rest | None


class Gateway:
    """Leads each request to the exchange whose host it names."""

    def __init__(
        self,
        exchanges: Mapping[str, Exchange],
        clients: Clients,
        injector: Injector,
        clock: MarketClock,
        seed: int,
    ) -> None:
        self._sockets: dict[str, Exchange] = {}
        self._rests: dict[str, Exchange] = {}
        for exchange in exchanges.values():
            self._sockets.update(dict.fromkeys(exchange.protocol.socket_hosts, exchange))
            self._rests.update(dict.fromkeys(exchange.protocol.rest_hosts, exchange))
        self._clients = clients
        self._injector = injector
        self._clock = clock
        self._latency = Random(f"{seed}/latency")  # noqa: S311

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request to `/<venue host>/<path>`."""
        address = Address(
            request.match_info["host"],
            "/" + request.match_info.get("path", ""),
            dict(request.query),
        )
        is_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        exchange = (self._sockets if is_socket else self._rests).get(address.host)
        if exchange is None:
            return self._unknown(address.host)
        if is_socket:
            return await self._serve_socket(request, exchange, address)
        return await self._serve_rest(request, exchange, address)

    def _unknown(self, host: str) -> web.Response:
        text = f"No simulated venue has the host {host!r}."
        hosts = {"webSocket": sorted(self._sockets), "http": sorted(self._rests)}
        return web.json_response({"message": text, "hosts": hosts}, status=404)

    async def _serve_rest(
        self, request: web.Request, exchange: Exchange, address: Address
    ) -> web.Response:
        assert exchange.rest is not None
        if request.method != "GET":
            return web.Response(status=405)
        retry_after = self._injector.retry_after_seconds(exchange.id)
        if retry_after is None:
            answer = exchange.rest.answer(address.path, address.query)
        else:
            answer = exchange.rest.refuse(retry_after)
        draw = self._latency.uniform(_SHORTEST_ANSWER_SECONDS, _LONGEST_ANSWER_SECONDS)
        await asyncio.sleep(draw)
        return _response(answer)

    async def _serve_socket(
        self, request: web.Request, exchange: Exchange, address: Address
    ) -> web.StreamResponse:
        status = self._injector.refused_status(exchange.id)
        if status is not None:
            return web.Response(status=status, headers={"Retry-After": "1"})
        socket = web.WebSocketResponse(
            autoping=False, autoclose=False, compress=False, max_msg_size=MAX_INCOMING_BYTES
        )
        await socket.prepare(request)
        transport = request.transport
        if not isinstance(transport, asyncio.Transport):
            return socket  # the client left during the handshake
        clients = self._clients
        connection = Connection(
            clients.next_number(), exchange.id, address, transport, clients.wants_flush
        )
        self._injector.watch(connection)
        session = exchange.protocol.session(exchange.markets, connection, self._clock)
        clients.enter(session)
        try:
            session.open()
            async for message in socket:
                await self._take(socket, exchange, session, message)
        finally:
            clients.leave(session)
        if connection.ended is not None:
            # A close frame went out already; the library would send a second one.
            transport.close()
        return socket

    async def _take(
        self,
        socket: web.WebSocketResponse,
        exchange: Exchange,
        session: Session[Any],
        message: WSMessage,
    ) -> None:
        """Answer what a client sent, unless it shall hear nothing any more."""
        session.hear()
        connection = session.connection
        if connection.ended is not None or connection.is_stalled:
            return
        if message.type is WSMsgType.PING:
            await socket.pong(message.data)
        elif message.type is WSMsgType.TEXT:
            # Where there is REST, that is what has limits.
            limit = self._injector.retry_after_seconds if exchange.rest is None else None
            retry_after = limit(exchange.id) if limit else None
            if retry_after is None:
                session.receive(message.data)
            else:
                session.refuse(message.data, retry_after)


def _response(answer: Answer) -> web.Response:
    return web.Response(
        status=answer.status,
        text=answer.body,
        content_type="application/json",
        headers=answer.headers,
    )
