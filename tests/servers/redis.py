"""Redis servers: alone, and as a cluster of three."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import redis

from tests.servers import places
from tests.servers.lifecycle import Lifecycle
from tests.servers.ports import free_port
from tests.servers.process import ServerFailedError, ServerProcess
from tests.servers.tls import Certificates

SLOTS = 16_384
CLUSTER_READY_SECONDS = 240


class Redis(ServerProcess):
    """One redis-server.

    Args:
        password: Password of the default user.
        acl: Further users and their rules, such as `{"reader": ">secret ~* +@read"}`.
        certificates: Speak TLS instead of plain TCP.
        max_memory_bytes: Refuse writes with OOM above this.
        is_durable: Keep an append-only file, so that what was acknowledged survives kill -9.
        options: Further settings; they win over ours.
    """

    name = "redis"

    def __init__(
        self,
        *,
        password: str | None = None,
        acl: Mapping[str, str] | None = None,
        certificates: Certificates | None = None,
        max_memory_bytes: int = 0,
        is_durable: bool = True,
        options: Mapping[str, str] | None = None,
        port: int | None = None,
        directory: Path | None = None,
    ) -> None:
        super().__init__(port=port, directory=directory)
        self.password = password
        self._acl = acl or {}
        self._certificates = certificates
        self._max_memory_bytes = max_memory_bytes
        self._is_durable = is_durable
        self._options = options or {}

    def address_at(self, endpoint: str) -> str:
        """Return the URL, with the default user's password."""
        login = "" if self.password is None else f":{self.password}@"
        return f"{self._scheme}://{login}{endpoint}/0"

    def address_as(self, user: str, password: str) -> str:
        """Return the URL for another user, or for a wrong password."""
        return f"{self._scheme}://{user}:{password}@{self.endpoint}/0"

    @property
    def _scheme(self) -> str:
        return "redis" if self._certificates is None else "rediss"

    def command(self) -> list[str]:
        """Return the command line; the settings are in a file, where no secret shows in `ps`."""
        path = self.directory / "redis.conf"
        users = [f"user {name} on {rules}" for name, rules in self._acl.items()]
        settings = [f"{name} {value}" for name, value in self._settings().items()]
        path.write_text("\n".join([*settings, *users, ""]))
        return [str(places.redis_server()), str(path)]

    def _settings(self) -> dict[str, str]:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.directory),
            "save": '""',
            "appendonly": "yes" if self._is_durable else "no",
            # By default a server answers before it writes while a flush to a busy disk goes on, and
            # loses that at kill -9. Without flushes it writes before it answers.
            "appendfsync": "no",
            "maxmemory": str(self._max_memory_bytes),
            "maxmemory-policy": "noeviction",
        }
        if self.password is not None:
            settings["requirepass"] = self.password
        if self._certificates is not None:
            settings |= {
                "port": "0",
                "tls-port": str(self.port),
                "tls-cert-file": str(self._certificates.cert),
                "tls-key-file": str(self._certificates.key),
                "tls-ca-cert-file": str(self._certificates.ca),
                "tls-auth-clients": "optional",
            }
        return {**settings, **self._options}

    def ping(self) -> None:
        """Send PING; a server that still loads its file answers with an error."""
        with self.client() as client:
            client.ping()

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """Give a client as the default user."""
        trust = {} if self._certificates is None else {"ssl_ca_certs": str(self._certificates.ca)}
        client = redis.Redis.from_url(self.address, socket_timeout=60, **trust)
        try:
            yield client
        finally:
            client.close()


class RedisNode(Redis):
    """One master of a cluster, with its second port for the other nodes."""

    def __init__(self) -> None:
        self.bus_port = free_port()
        options = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": "1000",
            "cluster-port": str(self.bus_port),
            # Slots of living nodes stay usable while another node is dead.
            "cluster-require-full-coverage": "no",
        }
        super().__init__(options=options)

    def is_joined(self, size: int) -> bool:
        """Say whether this node sees `size` nodes that share all slots."""
        with self.client() as client:
            info = client.execute_command("CLUSTER INFO")
        wanted = {"cluster_state": "ok", "cluster_slots_ok": str(SLOTS)}
        return info["cluster_known_nodes"] == str(size) and wanted.items() <= info.items()


class RedisCluster(Lifecycle):
    """Three masters that share the slots, each a server that a test may kill."""

    def __init__(self) -> None:
        self.nodes = [RedisNode() for _ in range(3)]

    @property
    def address(self) -> str:
        """Return the URL of one node; a cluster client finds the others."""
        return self.nodes[0].address

    def start(self) -> Self:
        """Start the nodes and join them."""
        for node in self.nodes:
            node.start()
        self._share_slots()
        self._wait_until_joined()
        return self

    def _share_slots(self) -> None:
        first, *others = self.nodes
        share = SLOTS // len(self.nodes)
        for position, node in enumerate(self.nodes):
            start = position * share
            end = SLOTS - 1 if node is self.nodes[-1] else start + share - 1
            with node.client() as client:
                client.execute_command("CLUSTER ADDSLOTSRANGE", start, end)
                # Distinct epochs at once spare the nodes the election that would sort them out.
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", position + 1)
        with first.client() as client:
            for node in others:
                client.execute_command("CLUSTER MEET", "127.0.0.1", node.port, node.bus_port)

    def _wait_until_joined(self) -> None:
        deadline = time.monotonic() + CLUSTER_READY_SECONDS
        while not all(node.is_joined(len(self.nodes)) for node in self.nodes):
            if time.monotonic() > deadline:
                raise ServerFailedError(f"No Redis cluster after {CLUSTER_READY_SECONDS} s.")
            time.sleep(0.02)

    def heal(self) -> None:
        """Bring killed and paused nodes back and wait until they know each other again."""
        for node in self.nodes:
            node.heal()
        self._wait_until_joined()

    def close(self) -> None:
        """Kill all nodes and remove their data."""
        for node in self.nodes:
            node.close()
