"""`/faults`: make a fault at once, and tell which there were."""

import msgspec
from aiohttp import web

from tardis_machine.model.errors import RequestError
from tardis_machine.server.exchange.control import json_response
from tardis_machine.server.exchange.faults import ARMED_KINDS, check_value, parse_kind
from tardis_machine.server.exchange.injector import Injector, describe


class FaultRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A fault to make at once: on all open connections, those of one exchange, or one of them."""

    kind: str
    exchange: str | None = None
    connection: int | None = None
    value: int | None = None


class FaultControl:
    """Answers `/faults`."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector

    async def tell(self, request: web.Request) -> web.Response:
        """Tell rules, counts, and the latest faults."""
        return json_response(describe(self._injector))

    async def make(self, request: web.Request) -> web.Response:
        """Make a fault now, or let the next handshake or request fail."""
        try:
            wanted = msgspec.json.decode(await request.read(), type=FaultRequest)
            kind = parse_kind(wanted.kind)
            check_value(kind, wanted.value)
        except ValueError as error:
            raise RequestError(f"Cannot make this fault: {error}") from error
        if kind in ARMED_KINDS:
            self._injector.arm(kind, wanted.exchange, wanted.value)
            return json_response({"armed": kind})
        hit = self._injector.inject(kind, wanted.exchange, wanted.connection, wanted.value)
        return json_response({"hit": hit})
