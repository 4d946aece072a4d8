"""How messages reach the servers and answers come back.

nats-py takes about ten microseconds to publish a message and as long to receive one. Writing the
commands of a whole batch as one block and reading simple answers many at a time takes a fifth of
that. Both need two private places of nats-py, so they are used with the versions they were tested
with, and the public calls with all others.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Protocol, TypeAlias

from nats.aio.client import Client
from nats.protocol.parser import AWAITING_CONTROL_LINE, CRLF_SIZE, Parser

from tardis_machine.sinks.nats.records import headers_of

OnAcks = Callable[[Iterable[int]], None]

_TESTED_VERSIONS = ("2.16.",)
_ACK = rb'MSG %b(\d+) \d+ \d+\r\n\{"stream":"[^"]*", ?(?:"domain":"[^"]*", ?)?"seq":\d+\}\r\n'


Message: TypeAlias = tuple[str, str, str, bytes]
"""Subject, where the answer goes (empty: there is none), headers as on the wire, and data."""


class Wire(Protocol):
    """Publishes messages in their order."""

    async def publish(self, messages: Sequence[Message]) -> None:
        """Hand messages to the connection; they are on their way, not stored."""


class PlainWire:
    """Publishes by the public call of nats-py, message by message."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def publish(self, messages: Sequence[Message]) -> None:
        """Hand messages over one by one."""
        for subject, reply, headers, data in messages:
            await self._client.publish(subject, data, reply, headers_of(headers))


class BlockWire:
    """Publishes a batch as one block of commands."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def publish(self, messages: Sequence[Message]) -> None:
        """Hand all messages over as one command."""
        parts: list[bytes] = []
        for subject, reply, headers, data in messages:
            size = len(headers)
            to = f"{subject} {reply}" if reply else subject
            command = f"HPUB {to} {size} {size + len(data)}\r\n{headers}"
            parts += (command.encode(), data, b"\r\n")
        await self._client._send_command(b"".join(parts))
        await self._client._flush_pending()


class AckParser(Parser):
    """Reads runs of simple positive answers at once and leaves all else to nats-py."""

    def __init__(self, client: Client, inbox: str, on_acks: OnAcks) -> None:
        super().__init__(client)
        one = _ACK % re.escape(inbox.encode())
        self._number = re.compile(one)
        self._run = re.compile(rb"(?:%b)+" % one.replace(rb"(\d+)", rb"\d+"))
        self._on_acks = on_acks

    async def parse(self, data: bytes = b"") -> None:
        """Take what the connection received."""
        if self.state != AWAITING_CONTROL_LINE:
            # The rest of a message whose first line was read before.
            missing = self.needed + CRLF_SIZE - len(self.buf)
            await super().parse(data[:missing])
            data = data[missing:]
        if self.state == AWAITING_CONTROL_LINE:
            data = self._take_acks(data)
        if data:
            await super().parse(data)

    def _take_acks(self, data: bytes) -> bytes:
        """Take the answers that the data begins with and return what follows them."""
        # Held bytes begin with a command that is not complete yet.
        received = bytes(self.buf) + data if self.buf else data
        run = self._run.match(received)
        if run is None:
            return data
        self.buf.clear()
        self._on_acks(map(int, self._number.findall(received, 0, run.end())))
        return received[run.end() :]


def make_wire(client: Client, inbox: str, on_acks: OnAcks, *, is_fast: bool | None = None) -> Wire:
    """Return the fastest wire for the installed nats-py, unless told which kind.

    Args:
        client: A connected client.
        inbox: What the subjects of answers begin with, before their number.
        on_acks: Called with the numbers of positive answers, on the fast wire only.
        is_fast: Use private places of nats-py; None: when its version was tested.
    """
    if not (is_tested() if is_fast is None else is_fast):
        return PlainWire(client)
    client._ps = AckParser(client, inbox, on_acks)
    return BlockWire(client)


def is_tested() -> bool:
    """Say whether the private places of the installed nats-py are those we know."""
    return version("nats-py").startswith(_TESTED_VERSIONS)
