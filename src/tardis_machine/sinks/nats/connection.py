"""One connection to NATS, which never reconnects by itself.

With the client's own reconnects, what is published during an outage overtakes what waits for its
answer. Here a lost connection stays lost: the sender opens the sink again and sends the events that
have no answer, in their order.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from tardis_machine.buses.nats.client import has_tls, tls_context
from tardis_machine.buses.nats.errors import LOGIN_REFUSALS, forbidden_subject, read_ack
from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.sinks.nats.in_flight import Window
from tardis_machine.sinks.nats.wire import Wire, make_wire
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

CUT = Result(
    Outcome.AMBIGUOUS, Reason.CONNECTION_LOST, "the connection was lost before the acknowledgement"
)

_RECONNECT_WAIT_SECONDS = 0.01


class Connection:
    """A client with an inbox of its own, to which all answers come."""

    wire: Wire
    inbox: str

    def __init__(self, settings: NatsSettings) -> None:
        self._settings = settings
        self.client = Client()
        self.window: Window | None = None
        self.is_lost = False
        self.last_error = ""
        self.violation = ""
        """The last permissions violation that the server reported."""

    async def open(self, *, is_fast: bool | None = None) -> None:
        """Connect and subscribe; SinkUnavailableError or SinkError when that fails."""
        settings = self._settings
        seconds = settings.connect_timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds * len(settings.servers)):
                await self.client.connect(
                    list(settings.servers), **_options(settings), **self._callbacks()
                )
                self.inbox = f"{self.client.new_inbox()}."
                self.wire = make_wire(self.client, self.inbox, self._on_acks, is_fast=is_fast)
                await self.client.subscribe(f"{self.inbox}*", cb=self._on_message)
                await self.round_trip()
        except (OSError, TimeoutError, ValueError, nats.errors.Error) as error:
            raise self._explained(error) from error
        if self.violation:
            raise SinkError(
                f"NATS denied the subscription to the inbox for acknowledgements: {self.violation}"
            )

    async def round_trip(self) -> None:
        """Return when the servers have read all that was handed over."""
        # The client writes a ping past what its flusher has not written yet: the first ping wakes
        # the flusher, and only the second one comes after everything.
        await self.client.flush()
        await self.client.flush()

    async def close(self, seconds: float) -> None:
        """End the connection, by force when it does not end in time."""
        self.is_lost = True
        try:
            async with asyncio.timeout(seconds):
                await self.client.close()
        except (TimeoutError, OSError, nats.errors.Error):
            self._abort()

    def _abort(self) -> None:
        """Reset the socket of a connection that cannot be closed, where nats-py lets us."""
        writer = getattr(getattr(self.client, "_transport", None), "_io_writer", None)
        if writer is not None:
            with suppress(OSError):
                writer.transport.abort()

    def _callbacks(self) -> dict[str, Any]:
        return {"error_cb": self._on_error, "closed_cb": self._on_closed}

    def _on_acks(self, numbers: Any) -> None:
        if self.window is not None:
            self.window.acknowledge(numbers)

    async def _on_message(self, message: Msg) -> None:
        _, _, number = message.subject.rpartition(".")
        if self.window is not None and number.isdigit():
            self.window.settle(int(number), read_ack(message.data, message.headers))

    async def _on_error(self, error: Exception) -> None:
        self.last_error = str(error) or type(error).__name__
        if "permissions violation" not in self.last_error.lower():
            return
        self.violation = self.last_error
        subject = forbidden_subject(self.last_error)
        if self.window is not None and subject is not None:
            self.window.settle_subject(subject, self.refusal)

    async def _on_closed(self) -> None:
        self.is_lost = True
        if self.window is not None:
            self.window.settle_rest(CUT)

    @property
    def refusal(self) -> Result:
        """Return the result of events that the permissions do not allow."""
        return Result(Outcome.BAD_DESTINATION, Reason.NOT_AUTHORIZED, self.violation)

    def _explained(self, error: Exception) -> SinkError:
        """Return what a failed connect means: try again soon, or wait for the operator."""
        text = str(error) if str(error) else self.last_error or type(error).__name__
        if isinstance(error, nats.errors.NoServersError) and self.last_error:
            text = self.last_error
        lowered = text.lower()
        is_refused = isinstance(error, nats.errors.Error) and any(
            word in lowered for word in LOGIN_REFUSALS
        )
        if is_refused or isinstance(error, ssl.SSLCertVerificationError | ValueError):
            return SinkError(f"NATS rejected the connection: {text}")
        return SinkUnavailableError(f"NATS is not reachable: {text}")


def _options(settings: NatsSettings) -> dict[str, Any]:
    password, token = settings.password, settings.token
    seconds = settings.connect_timeout_ms / 1000
    options = {
        "name": settings.name,
        "allow_reconnect": False,
        # Without a limit, an unreachable server is tried for minutes inside `connect`.
        "max_reconnect_attempts": 1,
        "reconnect_time_wait": _RECONNECT_WAIT_SECONDS,
        "connect_timeout": seconds,
        # Twice what can be on its way, so that handing over never waits for the socket.
        "pending_size": 2 * (settings.max_batch_bytes + settings.max_pending * 4096),
        "user": settings.user,
        "password": password and password.reveal(),
        "token": token and token.reveal(),
        "user_credentials": settings.creds and str(settings.creds),
        "nkeys_seed": settings.nkey_seed and str(settings.nkey_seed),
        "tls": tls_context(settings) if has_tls(settings) else None,
        "tls_hostname": settings.tls_hostname,
        "tls_handshake_first": settings.tls_first,
    }
    return {name: value for name, value in options.items() if value is not None}
