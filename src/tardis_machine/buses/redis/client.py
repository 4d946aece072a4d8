"""One connection to one Redis server, without the client's own retries.

redis-py connects, logs in and encrypts. Whole batches of commands, packed by hiredis, then go
through its connection object: a pipeline of the client costs three times as much per event.
"""

import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, TypeAlias

from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.model.errors import MissingExtraError

try:
    from hiredis import Reader, pack_command
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "Redis requires 'hiredis'. Run: pip install 'tardis-machine[redis]'"
    ) from error

Address: TypeAlias = tuple[str, int]
Reply: TypeAlias = Any
"""A value, or the exception that stands for an error reply."""
Words: TypeAlias = tuple[str | bytes | int, ...]

# Its stub describes a tuple of one word.
pack: Callable[[Words], bytes] = pack_command  # type: ignore[assignment]
"""Return a command as the server reads it."""


class Link:
    """A connection that is made when it is needed.

    Args:
        options: how to connect, as redis-py takes it.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        settings = dict(options)
        kind = settings.pop("connection_class", Connection)
        self._connection: Any = kind(**settings)
        self.where = settings.get("path") or f"{settings['host']}:{settings['port']}"

    @property
    def is_connected(self) -> bool:
        """Say whether the connection was open at the last check."""
        return bool(self._connection.is_connected)

    def connect(self) -> None:
        """Make sure that there is a usable connection; RedisError when there is none."""
        if self.is_connected and self._is_stale():
            self.close()
        if not self.is_connected:
            self._connection.connect()

    def write(self, data: bytes) -> None:
        """Send packed commands; the connection is closed when that fails."""
        self._connection.send_packed_command([data], check_health=False)

    def read(self, count: int, deadline: float) -> tuple[list[Reply], RedisError | None]:
        """Read replies; fewer, and the failure, when the connection or the time ends."""
        replies: list[Reply] = []
        while len(replies) < count:
            try:
                remaining = max(0.0, deadline - time.monotonic())
                replies.append(
                    self._connection.read_response(timeout=remaining, disconnect_on_error=False)
                )
                self._take_received(replies, count)
            except RedisError as error:
                if not _is_reply(error):
                    self.close()
                    return replies, error
                replies.append(error)
        return replies, None

    def _take_received(self, replies: list[Reply], count: int) -> None:
        """Take more replies that came together with one; raise the error that ends them.

        The client takes a microsecond for each. Its reader is a private place of it, so without
        one replies are read one by one.
        """
        reader = getattr(self._connection._parser, "_reader", None)
        if not isinstance(reader, Reader):
            return
        for reply in islice(iter(reader.gets, NOT_ENOUGH_DATA), count - len(replies)):
            if type(reply) is not bytes and (failure := _failure_in(reply)) is not None:
                raise failure
            replies.append(reply)

    def ask(self, *words: str | bytes | int) -> Reply:
        """Send one command and return its reply; raise when it is an error."""
        self.connect()
        self._connection.send_command(*words, check_health=False)
        return self._connection.read_response()

    def close(self) -> None:
        """Close the connection; the next use makes a new one."""
        self._connection.disconnect()

    def _is_stale(self) -> bool:
        """Say whether the server closed the connection or sent unexpected data."""
        try:
            return bool(self._connection.can_read(0))
        except RedisError:
            return True


def _failure_in(reply: Reply) -> RedisError | None:
    """Return the error in a reply, or at the beginning of a list, that is one of the connection."""
    first = reply[0] if isinstance(reply, list) and reply else reply
    return first if isinstance(first, RedisError) and not _is_reply(first) else None


def _is_reply(error: RedisError) -> bool:
    """Distinguish an error reply of the server from a connection error."""
    return isinstance(error, ResponseError) or error.status_code is not None


def is_timeout(error: RedisError) -> bool:
    """Say whether a failure is one of time."""
    return isinstance(error, RedisTimeoutError)


def connection_options(settings: RedisSettings) -> dict[str, Any]:
    """Return how to connect to the configured server; sentinels fill in where it is."""
    options: dict[str, Any] = {
        "host": settings.host or "localhost",
        "port": settings.port,
        "db": settings.db,
        "username": settings.username,
        "password": settings.password and settings.password.reveal(),
        **_tls_options(settings),
    }
    if settings.url is not None:
        given: dict[str, Any] = parse_url(settings.url.reveal())  # type: ignore[no-untyped-call]
        # What the URL does not say comes from the other options.
        options |= given
        if given.get("connection_class") is UnixDomainSocketConnection:
            options = _without_network(options)
    return options | _socket_options(settings)


def sentinel_options(settings: RedisSettings, address: Address) -> dict[str, Any]:
    """Return how to connect to a sentinel."""
    host, port = address
    password = settings.sentinel_password
    return {
        "host": host,
        "port": port,
        "password": password and password.reveal(),
        **_tls_options(settings),
        **_socket_options(settings),
    }


def _tls_options(settings: RedisSettings) -> dict[str, Any]:
    url = settings.url.reveal() if settings.url else ""
    if not (settings.tls or settings.tls_ca or url.startswith("rediss:")):
        return {}
    return {
        "connection_class": SSLConnection,
        "ssl_ca_certs": settings.tls_ca and str(settings.tls_ca),
        "ssl_certfile": settings.tls_cert and str(settings.tls_cert),
        "ssl_keyfile": settings.tls_key and str(settings.tls_key),
        "ssl_cert_reqs": "required" if settings.tls_verify else "none",
        "ssl_check_hostname": settings.tls_verify,
    }


def _socket_options(settings: RedisSettings) -> dict[str, Any]:
    return {
        "socket_timeout": settings.request_timeout_ms / 1000,
        "socket_connect_timeout": settings.connect_timeout_ms / 1000,
        # A repeated batch is the sender's decision, never the client's.
        "retry": Retry(NoBackoff(), 0),
        "health_check_interval": 0,
        # RESP2: every server supports it, and it has no push messages.
        "protocol": 2,
        # Not worth two more round trips per connection.
        "driver_info": None,
    }


def _without_network(options: Mapping[str, Any]) -> dict[str, Any]:
    left_out = ("host", "port")
    return {
        name: value
        for name, value in options.items()
        if name not in left_out and not name.startswith("ssl_")
    }
