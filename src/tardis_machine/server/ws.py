"""`/ws-replay-normalized`: one JSON text frame per record."""

from contextlib import aclosing

from tardis_machine.model.control import encode_lines
from tardis_machine.server.connection import Connection
from tardis_machine.server.options import parse_normalized_options
from tardis_machine.server.services import Services
from tardis_machine.session.plan import plan_normalized
from tardis_machine.session.run import client_records


async def replay_normalized(connection: Connection, services: Services) -> str:
    """Send the records a client asked for."""
    options = connection.request.query.get("options")
    plan = plan_normalized(parse_normalized_options(options), services.clock())
    services.warn_of_ignored(plan)
    async with aclosing(client_records(plan, services.archive, services.clock)) as chunks:
        with services.meter("/ws-replay-normalized", plan.exchanges) as meter:
            async for records in chunks:
                body = encode_lines(records)
                meter.sent(len(records), len(body))
                await connection.send(body.splitlines())
    return "WS replay-normalized finished"
