"""An Event Hubs namespace of our own: AMQP 1.0 as azure-eventhub speaks it."""

import base64
import hmac
import secrets
import socket
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from proton import UNDESCRIBED, Array, Data, Message, int32, timestamp

from tests.servers.amqp import body
from tests.servers.event_hubs_faults import Fault
from tests.servers.event_hubs_peer import Peer
from tests.servers.event_hubs_store import Hub, Partition, Store
from tests.servers.faults import FaultPlan
from tests.servers.threaded import ServerThread

KEY_NAME = "tester"
WITHOUT_TLS = ";UseDevelopmentEmulator=true"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
GREETING_SECONDS = 60


class EventHubs(ServerThread):
    """A namespace in a thread of this process; hubs are created by `create_hub`.

    A planned fault is used by one send. When the plan is empty, `always` applies, until `heal`.
    `stop` takes the listener down, `start` brings it back with all events.
    """

    def __init__(
        self, *, port: int | None = None, directory: Path | None = None, key: str | None = None
    ) -> None:
        super().__init__(port=port)
        self._store = Store(directory)
        self._key = key or make_key()
        self._plan: FaultPlan[Fault] = FaultPlan()
        self._token_status = HTTPStatus.ACCEPTED
        self.connections: set[Peer] = set()
        self.is_paused = False
        self.sends_total = 0

    def address_at(self, endpoint: str) -> str:
        """Return the connection string."""
        return connection_string(endpoint, self._key)

    @property
    def tls_address(self) -> str:
        """Return the connection string for clients that come by TLS, as to Azure."""
        return self.address.removesuffix(WITHOUT_TLS)

    def create_hub(self, name: str, partitions: int = 2) -> str:
        """Create a hub and return its name."""
        self.do(lambda: self._store.create_hub(name, partitions))
        return name

    def events_total(self, hub: str) -> int:
        """Return how many events a hub holds."""
        partitions = self._store.hubs[hub].partitions
        return self.do(lambda: sum(len(partition.events) for partition in partitions))

    def bodies(self, hub: str) -> list[list[bytes]]:
        """Return the bodies of all events by partition, without a client's delay."""
        partitions = self._store.hubs[hub].partitions
        return self.do(
            lambda: [[body(event.encoded) for event in part.events] for part in partitions]
        )

    def plan(self, *faults: Fault) -> None:
        """Spoil the next sends, one fault each, in this order."""
        self.do(lambda: self._plan.extend(faults))

    def always(self, fault: Fault) -> None:
        """Spoil every send after the plan."""
        self.do(lambda: self._plan.repeat(fault))

    def refuse_tokens(self) -> None:
        """Answer every login with 401, also the right ones."""
        self._token_status = HTTPStatus.UNAUTHORIZED

    def pause(self) -> None:
        """Keep connections open and answer nothing."""

        def hold() -> None:
            self.is_paused = True
            for connection in self.connections:
                connection.hold()

        self.do(hold)

    def resume(self) -> None:
        """Go on with what came in during the pause."""

        def release() -> None:
            self.is_paused = False
            for connection in list(self.connections):
                connection.release()

        self.do(release)

    def heal(self) -> None:
        """Forget every fault, go on after a pause and listen again."""
        super().heal()
        self.do(self._plan.clear)
        self._token_status = HTTPStatus.ACCEPTED
        self.resume()
        try:
            self._greet()
        except OSError:
            self.restart()

    def _greet(self) -> None:
        """Exchange the first bytes of AMQP, as every client does; OSError when nobody answers."""
        with socket.create_connection(("127.0.0.1", self.port), GREETING_SECONDS) as client:
            client.sendall(SASL_HEADER)
            if client.recv(len(SASL_HEADER)) != SASL_HEADER:
                raise ConnectionError("The namespace does not speak AMQP.")

    async def open(self) -> None:
        """Listen on the port."""
        assert self._loop is not None
        self._server = await self._loop.create_server(lambda: Peer(self), "127.0.0.1", self.port)

    async def shut(self) -> None:
        """Stop listening and reset every connection."""
        self._server.close()
        for connection in list(self.connections):
            connection.abort()

    def hub(self, name: str) -> Hub | None:
        """Return a hub by name."""
        return self._store.hubs.get(name)

    def take_fault(self) -> Any:
        """Return what shall happen to the send at hand."""
        self.sends_total += 1
        return self._plan.take()

    def answer_request(self, path: str, request: Message) -> Message:
        """Answer a request to `$cbs` or `$management`."""
        if path.endswith("$cbs"):
            return _reply(request, self._status_of(str(request.body)), None)
        name = str(request.properties["name"])
        hub = self.hub(name)
        if hub is None:
            return _reply(request, HTTPStatus.NOT_FOUND, None)
        if request.properties["type"] == "com.microsoft:partition":
            return _reply(request, HTTPStatus.OK, _describe_partition(hub, request))
        return _reply(request, HTTPStatus.OK, _describe_hub(hub))

    def _status_of(self, token: str) -> HTTPStatus:
        fields = dict(field.split("=", 1) for field in token.partition(" ")[2].split("&"))
        signed = f"{fields['sr']}\n{fields['se']}".encode()
        expected = base64.b64encode(hmac.digest(self._key.encode(), signed, sha256)).decode()
        is_ours = hmac.compare_digest(unquote(fields["sig"]), expected)
        return self._token_status if is_ours else HTTPStatus.UNAUTHORIZED


def make_key() -> str:
    """Return a fresh shared access key."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


def connection_string(endpoint: str, key: str) -> str:
    """Return a connection string; the emulator mark lets the client use a port without TLS."""
    return (
        f"Endpoint=sb://{endpoint};SharedAccessKeyName={KEY_NAME};"
        f"SharedAccessKey={key}{WITHOUT_TLS}"
    )


def _reply(request: Message, status: HTTPStatus, body: Any) -> Message:
    return Message(
        body=body,
        correlation_id=request.id,
        properties={"status-code": int32(status), "status-description": status.phrase},
    )


def _describe_hub(hub: Hub) -> dict[str, Any]:
    ids = [str(number) for number in range(len(hub.partitions))]
    return {
        "name": hub.name,
        "type": "com.microsoft:eventhub",
        "created_at": timestamp(hub.created_ms),
        "partition_count": int32(len(ids)),
        "partition_ids": Array(UNDESCRIBED, Data.STRING, *ids),
    }


def _describe_partition(hub: Hub, request: Message) -> dict[str, Any]:
    number = str(request.properties["partition"])
    partition: Partition = hub.partitions[int(number)]
    last = partition.events[-1] if partition.events else None
    return {
        "name": hub.name,
        "type": "com.microsoft:partition",
        "partition": number,
        "begin_sequence_number": 0,
        "last_enqueued_sequence_number": -1 if last is None else last.sequence,
        "last_enqueued_offset": "-1" if last is None else str(last.offset),
        "last_enqueued_time_utc": timestamp(0 if last is None else last.enqueued_ms),
        "is_partition_empty": last is None,
    }
