"""`/ws-replay-normalized` and `/ws-stream-normalized`: one JSON text frame per record."""

import asyncio
from contextlib import aclosing

from aiohttp import WSCloseCode

from tardis_machine.server.guards.limits import (
    check_levels,
    check_normalized_size,
    streams_of,
    symbols_of,
)
from tardis_machine.server.options import parse_normalized_options, parse_stream_options
from tardis_machine.server.services import Services, StreamMeter
from tardis_machine.server.websocket import WebSocket, WebSocketRefusedError
from tardis_machine.session.live.plan import plan_stream
from tardis_machine.session.live.stream import LiveClient, SlowConsumerError, TooManyFailuresError
from tardis_machine.session.response import client_body

ROUTE = "/ws-replay-normalized"
STREAM_ROUTE = "/ws-stream-normalized"


async def replay_normalized(websocket: WebSocket, services: Services) -> str:
    """Send the records a client asked for."""
    options = websocket.request.query.get("options")
    requests = parse_normalized_options(options)
    plan = services.plan(requests)
    streams = streams_of(entries=len(plan.entries), symbols=symbols_of(requests))
    del options, requests
    with (
        services.admission.admit_more(streams),
        services.meter(ROUTE, plan.exchanges) as meter,
    ):
        copy = services.copy(plan, "ws", ROUTE)
        async with aclosing(client_body(plan, services.session, copy)) as chunks:
            async for count, body in chunks:
                meter.sent(count, len(body))
                sending = websocket.send_lines(body)
                # A client that does not read costs what is queued, and no second copy.
                del body
                await sending
    return "WS replay-normalized finished"


async def stream_normalized(websocket: WebSocket, services: Services) -> str:
    """Send what exchanges send now, until the client leaves."""
    options = websocket.request.query.get("options")
    environment = services.live.source.settings.exchange_environment
    requests = parse_stream_options(options)
    check_normalized_size(requests, services.settings)
    plan = plan_stream(requests, environment)
    check_levels(plan, services.settings)
    services.warn_of_ignored(plan)
    streams = streams_of(entries=len(plan.entries), symbols=symbols_of(requests))
    del options, requests
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as patience:
            # One that reads nothing is waited for in `send`, and would not hear of it.
            client = LiveClient(
                plan, services.live, on_cut=lambda: patience.reschedule(loop.time())
            )
            with services.admission.admit_more(streams):
                await _send_live(client, websocket, services.meter(STREAM_ROUTE, plan.exchanges))
    except TooManyFailuresError as error:
        raise WebSocketRefusedError(WSCloseCode.INTERNAL_ERROR, str(error)) from error
    except (SlowConsumerError, TimeoutError) as error:
        websocket.note_slow()
        raise WebSocketRefusedError(
            WSCloseCode.POLICY_VIOLATION, "Too much backpressure"
        ) from error
    return "WS stream-normalized finished"


async def _send_live(client: LiveClient, websocket: WebSocket, meter: StreamMeter) -> None:
    async with aclosing(client.chunks()) as chunks:
        with meter:
            async for ready in chunks:
                lines = [line for chunk in ready for line in chunk.lines]
                # A client that does not read costs what is queued, and no second copy.
                ready.clear()
                meter.sent(len(lines), sum(map(len, lines)))
                sending = websocket.send(lines)
                del lines
                await sending
