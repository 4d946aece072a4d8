"""NATS servers with JetStream: alone, and as a cluster of three."""

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.request import urlopen

import nkeys

from tests.servers import places
from tests.servers.lifecycle import Lifecycle
from tests.servers.ports import free_port
from tests.servers.process import ServerFailedError, ServerProcess
from tests.servers.tls import Certificates

PING_SECONDS = 5
CLUSTER_READY_SECONDS = 240


class Nats(ServerProcess):
    """One nats-server with JetStream; its store survives kill -9.

    Args:
        users: Names and passwords.
        token: The one token that clients must show.
        nkeys: Public keys of clients that sign with their seed.
        permissions: Rules for `users`, by name, such as `{"publish": "allowed.>"}`.
        certificates: Require TLS.
        settings: Further sections of the configuration file; they win over ours.
        binary: Another nats-server than the default one.

    `login` is what `nats.connect` needs to get in: the first user, or the token. For nkeys the
    caller has the seed.
    """

    name = "nats"

    def __init__(
        self,
        *,
        users: Mapping[str, str] | None = None,
        token: str | None = None,
        nkeys: Sequence[str] = (),
        permissions: Mapping[str, Mapping[str, Any]] | None = None,
        certificates: Certificates | None = None,
        settings: Mapping[str, Any] | None = None,
        binary: Path | None = None,
        port: int | None = None,
        directory: Path | None = None,
    ) -> None:
        super().__init__(port=port, directory=directory)
        self._users = users or {}
        self._token = token
        self._nkeys = nkeys
        self._permissions = permissions or {}
        self._certificates = certificates
        self._settings = settings or {}
        self._binary = binary

    def address_at(self, endpoint: str) -> str:
        """Return the URL, without credentials."""
        return f"{'nats' if self._certificates is None else 'tls'}://{endpoint}"

    @property
    def node_name(self) -> str:
        """Return the name by which a cluster knows this server."""
        return f"n{self.port}"

    @property
    def login(self) -> dict[str, str]:
        """Return the options of `nats.connect` that a known client gives."""
        if self._token is not None:
            return {"token": self._token}
        for user, password in self._users.items():
            return {"user": user, "password": password}
        return {}

    def command(self) -> list[str]:
        """Return the command line; the configuration file is JSON, which nats-server reads."""
        path = self.directory / "nats.conf"
        path.write_text(json.dumps(self._configuration(), indent=2))
        return [str(self._binary or places.nats_server()), "--config", str(path)]

    def _configuration(self) -> dict[str, Any]:
        configuration: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "server_name": self.node_name,
            "jetstream": {"store_dir": str(self.directory / "jetstream")},
        }
        if authorization := self._authorization():
            configuration["authorization"] = authorization
        if self._certificates is not None:
            configuration["tls"] = {
                "cert_file": str(self._certificates.cert),
                "key_file": str(self._certificates.key),
            }
        return {**configuration, **self._settings}

    def _authorization(self) -> dict[str, Any]:
        if self._token is not None:
            return {"token": self._token}
        users: list[dict[str, Any]] = [{"nkey": key} for key in self._nkeys]
        for user, password in self._users.items():
            rules = {"permissions": self._permissions[user]} if user in self._permissions else {}
            users.append({"user": user, "password": password, **rules})
        return {"users": users} if users else {}

    def ping(self) -> None:
        """Read the greeting, which every client gets before it logs in."""
        with socket.create_connection(("127.0.0.1", self.port), PING_SECONDS) as connection:
            greeting = connection.makefile("rb").readline()
        if b'"jetstream":true' not in greeting:
            raise ServerFailedError(f"Not the greeting of a server with JetStream: {greeting!r}")


class NKey(NamedTuple):
    """A client's key pair: the seed signs, the server knows the public part."""

    seed: str
    public: str


def make_nkey() -> NKey:
    """Return a fresh user key."""
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return NKey(seed.decode(), nkeys.from_seed(bytearray(seed)).public_key.decode())


class NatsNode(Nats):
    """One server of a cluster, with a port for its peers and one for its health."""

    def __init__(self, routes: Sequence[int], own_route: int) -> None:
        self._monitor_port = free_port()
        super().__init__(
            settings={
                "http": f"127.0.0.1:{self._monitor_port}",
                "cluster": {
                    "name": "test",
                    "listen": f"127.0.0.1:{own_route}",
                    "routes": [f"nats://127.0.0.1:{port}" for port in routes],
                },
            }
        )

    def is_joined(self) -> bool:
        """Say whether the cluster has a leader that this node follows."""
        try:
            with urlopen(f"http://127.0.0.1:{self._monitor_port}/healthz", timeout=2) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except OSError:
            return False


class NatsCluster(Lifecycle):
    """Three servers that hold replicated streams, each one a test may kill."""

    def __init__(self) -> None:
        routes = [free_port() for _ in range(3)]
        self.nodes = [NatsNode(routes, own) for own in routes]

    @property
    def address(self) -> str:
        """Return the URLs of all nodes, separated by commas."""
        return ",".join(node.address for node in self.nodes)

    def start(self) -> Self:
        """Start the nodes and wait for a leader."""
        for node in self.nodes:
            node.start()
        self._wait_until_joined()
        return self

    def heal(self) -> None:
        """Bring killed and paused nodes back and wait until they follow a leader again.

        A cluster that finds none, which happens on a busy machine, begins anew without its streams.
        """
        for node in self.nodes:
            node.heal()
        try:
            self._wait_until_joined()
        except ServerFailedError:
            self.close()
            self.start()

    def _wait_until_joined(self) -> None:
        deadline = time.monotonic() + CLUSTER_READY_SECONDS
        while not all(node.is_joined() for node in self.nodes):
            if time.monotonic() > deadline:
                raise ServerFailedError(f"No NATS cluster after {CLUSTER_READY_SECONDS} s.")
            time.sleep(0.02)

    def close(self) -> None:
        """Kill all nodes and remove their data."""
        for node in self.nodes:
            node.close()
