"""Connection options of azure-eventhub clients, and aborting their connections.

The client reads without a timeout while it connects: if the peer accepts the connection and sends
nothing, its call never returns, and its `close` waits for that call. Shutting the socket down ends
both.
"""

import socket
import ssl
import threading
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

import certifi
from azure.eventhub import TransportType

from tardis_machine.buses.event_hubs.settings import EventHubsSettings


class Connections(ssl.SSLContext):
    """The TLS connections of one client, given to it as its context."""

    def __init__(self, _protocol: int) -> None:
        self._sockets: WeakSet[ssl.SSLSocket] = WeakSet()
        self._lock = threading.Lock()
        self._is_over = False

    def wrap_socket(self, sock: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Encrypt a connection; the handshake too can be ended."""
        # By itself it would do the handshake before it says what it made.
        made = super().wrap_socket(sock, *args, **(options | {"do_handshake_on_connect": False}))
        with self._lock:
            self._sockets.add(made)
            is_over = self._is_over
        try:
            if is_over:
                shut(made)
            made.do_handshake()
        except OSError:
            made.close()
            raise
        return made

    def end(self) -> None:
        """Break every connection, now and in the future."""
        with self._lock:
            self._is_over = True
            sockets = list(self._sockets)
        for each in sockets:
            shut(each)


def make_connections(settings: EventHubsSettings) -> Connections:
    """Return the connections of a new client."""
    made = Connections(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(settings.ca or certifi.where())
    return made


def client_options(settings: EventHubsSettings, connections: Connections) -> dict[str, Any]:
    """Return the options of every client, producer or consumer."""
    options: dict[str, Any] = {
        "retry_total": 0,
        "retry_backoff_factor": 0,
        "auth_timeout": settings.connect_timeout_ms / 1000,
        "transport_type": (
            TransportType.AmqpOverWebsocket if settings.is_websocket else TransportType.Amqp
        ),
        "http_proxy": settings.proxy and _proxy(settings.proxy.reveal()),
        "custom_endpoint_address": settings.amqp_endpoint,
        "ssl_context": connections,
    }
    return {name: value for name, value in options.items() if value is not None}


def shut(connection: socket.socket) -> None:
    """Shut down the socket of a connection while another thread reads from it."""
    # One that has ended already cannot be shut.
    with suppress(OSError):
        # Not the method of TLS, which would take the keys from a reader in the middle of a record.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _proxy(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    proxy: dict[str, Any] = {"proxy_hostname": parts.hostname, "proxy_port": parts.port or 8080}
    if parts.username:
        proxy |= {"username": unquote(parts.username), "password": unquote(parts.password or "")}
    return proxy
