"""`/ws-replay-normalized`: one JSON text frame per record."""

from contextlib import aclosing

from tardis_machine.server.options import parse_normalized_options
from tardis_machine.server.services import Services
from tardis_machine.server.websocket import WebSocket
from tardis_machine.session.plan import plan_normalized
from tardis_machine.session.response import client_body

ROUTE = "/ws-replay-normalized"


async def replay_normalized(websocket: WebSocket, services: Services) -> str:
    """Send the records a client asked for."""
    options = websocket.request.query.get("options")
    plan = plan_normalized(parse_normalized_options(options), services.clock())
    services.warn_of_ignored(plan)
    copy = services.copy("ws", ROUTE)
    async with aclosing(client_body(plan, services.session, copy)) as chunks:
        with services.meter(ROUTE, plan.exchanges) as meter:
            async for count, body in chunks:
                meter.sent(count, len(body))
                await websocket.send(body.splitlines())
    return "WS replay-normalized finished"
