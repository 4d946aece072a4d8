"""A blocking connection to NATS that reads many messages at a time.

Receiving costs about one microsecond per message: commands are cut out of large blocks of bytes,
and nothing but a tuple is made of each.
"""

import itertools
import json
import secrets
import socket
import ssl
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from tardis_machine.buses.nats.client import tls_context
from tardis_machine.buses.nats.errors import LOGIN_REFUSALS, NO_RESPONDERS
from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.lake.buses.nats.login import login, wants_tls
from tardis_machine.lake.errors import BusError, BusUnavailableError
from tardis_machine.version import __version__

DEFAULT_PORT = 4222
BLOCK_BYTES = 1 << 20

_REFUSALS = (*LOGIN_REFUSALS, "permissions")


class Message(NamedTuple):
    """One message that came in."""

    subject: bytes
    reply: bytes
    headers: bytes
    data: bytes

    @property
    def status(self) -> int | None:
        """Return the number of a message that is a status, such as 404, and no event."""
        if not self.headers.startswith(b"NATS/1.0 "):
            return None
        return int(self.headers[9:12])


class Parsed(NamedTuple):
    """The content of a block of bytes."""

    messages: list[Message]
    others: list[bytes]
    """Lines that are no messages, such as PING."""
    used: int
    """Bytes of whole commands; what follows is the beginning of another one."""


def parse(block: bytes) -> Parsed:
    """Cut a block into commands."""
    messages: list[Message] = []
    others: list[bytes] = []
    size, start = len(block), 0
    while (end := block.find(b"\r\n", start)) >= 0:
        words = block[start:end].split(b" ")
        verb, body = words[0], end + 2
        if verb == b"HMSG":
            headers_end, body_end = body + int(words[-2]), body + int(words[-1])
            if body_end + 2 > size:
                break
            reply = words[3] if len(words) == 6 else b""
            headers = block[body:headers_end]
            messages.append(Message(words[1], reply, headers, block[headers_end:body_end]))
            start = body_end + 2
        elif verb == b"MSG":
            body_end = body + int(words[-1])
            if body_end + 2 > size:
                break
            reply = words[3] if len(words) == 5 else b""
            messages.append(Message(words[1], reply, b"", block[body:body_end]))
            start = body_end + 2
        else:
            others.append(block[start:end])
            start = body
    return Parsed(messages, others, start)


class NatsConnection:
    """A connection to one of the servers, with an inbox for all responses.

    Args:
        settings: Servers, credentials and certificates.
    """

    def __init__(self, settings: NatsSettings) -> None:
        self._settings = settings
        self._timeout = settings.ack_timeout_ms / 1000
        self._rest = b""
        self._numbers = itertools.count(1)
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self.info: dict[str, Any] = {}
        self._socket = self._open_any()
        self._socket.settimeout(self._timeout)
        self._send(f"SUB {self._inbox}.* 1\r\n".encode())

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def new_inbox(self) -> str:
        """Return a subject whose messages come to this connection."""
        return f"{self._inbox}.{next(self._numbers)}"

    def publish(self, subject: str, reply: str, data: bytes) -> None:
        """Send a message; its responses come with `receive`."""
        self._send(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data))

    def receive(self) -> list[Message]:
        """Return the messages that came in, at least one."""
        while True:
            parsed = parse(self._rest)
            self._rest = self._rest[parsed.used :]
            self._heed(parsed.others)
            if parsed.messages:
                return parsed.messages
            self._rest += self._receive_block()

    def request(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its response; only while no other messages are expected."""
        inbox = self.new_inbox()
        self.publish(subject, inbox, json.dumps(body).encode() if body else b"")
        while True:
            for message in self.receive():
                if message.subject == inbox.encode():
                    return self._answer(message)

    def _answer(self, message: Message) -> dict[str, Any]:
        if message.status == NO_RESPONDERS:
            raise BusError(
                "NATS: no responders; JetStream is not enabled for this account or domain."
            )
        answer: dict[str, Any] = json.loads(message.data)
        return answer

    def _open_any(self) -> socket.socket:
        failures = []
        for server in self._settings.servers:
            try:
                return self._open(urlsplit(server))
            except (OSError, BusUnavailableError) as error:
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise BusError(f"NATS: TLS verification of {server} failed: {error}") from error
                failures.append(f"{server}: {error}")
        raise BusUnavailableError(f"NATS is not reachable: {'; '.join(failures)}")

    def _open(self, url: SplitResult) -> socket.socket:
        if url.scheme not in ("nats", "tls"):
            raise BusError(
                "Reading from NATS over WebSocket is not supported: use nats:// or tls:// servers."
            )
        host, port = str(url.hostname), url.port or DEFAULT_PORT
        connection = socket.create_connection(
            (host, port), self._settings.connect_timeout_ms / 1000
        )
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._greet(connection, url.scheme, host)
        except BaseException:
            connection.close()
            raise

    def _greet(self, connection: socket.socket, scheme: str, host: str) -> socket.socket:
        self._rest = b""
        is_encrypted = self._settings.tls_first
        self._socket = self._encrypted(connection, host) if is_encrypted else connection
        self.info = json.loads(self._expect(b"INFO "))
        if not is_encrypted and wants_tls(self._settings, scheme, self.info):
            self._socket = self._encrypted(connection, host)
        self._send(f"CONNECT {json.dumps(self._introduction())}\r\nPING\r\n".encode())
        self._expect(b"PONG")
        return self._socket

    def _introduction(self) -> dict[str, Any]:
        return {
            "verbose": False,
            "pedantic": False,
            "lang": "python",
            "version": __version__,
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            "name": self._settings.name,
            **login(self._settings, str(self.info.get("nonce", ""))),
        }

    def _encrypted(self, connection: socket.socket, host: str) -> ssl.SSLSocket:
        name = self._settings.tls_hostname or host
        return tls_context(self._settings).wrap_socket(connection, server_hostname=name)

    def _expect(self, verb: bytes) -> bytes:
        """Return what follows a verb on the line that must come next."""
        for line in self._lines():
            if line.startswith(verb):
                return line[len(verb) :]
            self._heed([line])
        raise AssertionError

    def _lines(self) -> Iterator[bytes]:
        while True:
            while b"\r\n" not in self._rest:
                self._rest += self._receive_block()
            line, _, self._rest = self._rest.partition(b"\r\n")
            yield line

    def _heed(self, lines: list[bytes]) -> None:
        for line in lines:
            if line.startswith(b"PING"):
                self._send(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                raise _explained(line[4:].decode().strip(" '"))

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise BusUnavailableError(f"NATS: the connection was lost: {error}") from error

    def _receive_block(self) -> bytes:
        try:
            block = self._socket.recv(BLOCK_BYTES)
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:
            raise BusUnavailableError(f"NATS: reading from the server failed: {error}") from error
        if not block:
            raise BusUnavailableError("NATS: the server closed the connection.")
        return block


def _explained(text: str) -> BusError:
    is_refusal = any(word in text.lower() for word in _REFUSALS)
    return (BusError if is_refusal else BusUnavailableError)(f"NATS: {text}")
