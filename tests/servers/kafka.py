"""A single-node Kafka broker (KRaft) from the jars that `obtain` resolved."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.servers import places
from tests.servers.elsewhere import Elsewhere
from tests.servers.ports import free_port
from tests.servers.process import ServerFailedError, ServerProcess
from tests.servers.tls import Certificates

# Fast to start and small, on two busy cores: one collector thread, the quick compiler only.
JAVA_OPTIONS = ("-Xms96m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER_ID = "dGFyZGlzLW1hY2hpbmUtMQ"
ADMIN_SECONDS = 240

PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    # A producer that names a missing topic must see it missing.
    "auto.create.topics.enable": "false",
    "num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After kill -9 the controller refuses the broker until the old registration has expired.
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "250",
}
SASL_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, kw_only=True)
class HubsListener:
    """The Kafka endpoint of an Event Hubs namespace; a proxy may stand before it."""

    connection_string: str
    certificates: Certificates
    proxy_address: str | None = None


class Topics:
    """Create and delete topics, on a broker of ours or elsewhere."""

    address: str

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, wait until it has leaders, and return its name."""
        admin = self._admin()
        topic = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
        admin.create_topics([topic], request_timeout=ADMIN_SECONDS)[name].result(ADMIN_SECONDS)
        deadline = time.monotonic() + ADMIN_SECONDS
        while not _has_leaders(admin, name, partitions):
            if time.monotonic() > deadline:
                raise ServerFailedError(f"Topic {name} has no leader after {ADMIN_SECONDS} s.")
            time.sleep(0.01)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic with everything in it."""
        admin = self._admin()
        admin.delete_topics([name], request_timeout=ADMIN_SECONDS)[name].result(ADMIN_SECONDS)

    def _admin(self) -> AdminClient:
        # Silent: refused connections are normal while the broker starts.
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})


class KafkaElsewhere(Topics, Elsewhere):
    """A Kafka cluster of somebody else; topics are created in it and not deleted."""


def _has_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
    known = admin.list_topics(topic, timeout=ADMIN_SECONDS).topics[topic].partitions
    return len(known) == partitions and all(p.leader >= 0 for p in known.values())


class Kafka(Topics, ServerProcess):
    """A Kafka broker with a plain listener and, on request, further ones.

    One each is for SASL, for TLS, for a proxy, and for the login of Event Hubs behind a proxy.

    Args:
        users: Names and passwords of the SASL listener; PLAIN knows them at once, SCRAM after
            `AdminClient.alter_user_scram_credentials`.
        certificates: Turns the TLS listener on.
        proxy_address: Where a proxy will stand before `proxied_address`. Clients that come in
            there are told to come back there, so the proxy sees all of their traffic.
        hubs: Turns on a listener as Event Hubs has it: TLS and a login by connection string.
        properties: Further broker settings; they win over ours.
    """

    name = "kafka"

    def __init__(
        self,
        *,
        users: Mapping[str, str] | None = None,
        certificates: Certificates | None = None,
        proxy_address: str | None = None,
        hubs: HubsListener | None = None,
        properties: Mapping[str, str] | None = None,
        java_options: tuple[str, ...] = (),
        port: int | None = None,
        directory: Path | None = None,
    ) -> None:
        super().__init__(port=port, directory=directory)
        self._controller_port = free_port()
        self._users = users
        self._certificates = certificates
        self.proxy_address = proxy_address
        self.hubs = hubs
        self._properties = properties or {}
        self._java_options = java_options
        self.sasl_address = f"127.0.0.1:{free_port()}"
        self.tls_address = f"127.0.0.1:{free_port()}"
        self.proxied_address = f"127.0.0.1:{free_port()}"
        self.proxied_hubs_address = f"127.0.0.1:{free_port()}"

    def command(self) -> list[str]:
        """Return the broker's command line; a new data directory is formatted first."""
        classpath = places.kafka_classpath()
        data = self.directory / "data"
        if not data.exists():
            shutil.copytree(places.kafka_home() / "formatted", data)
        settings = self.directory / "server.properties"
        settings.write_text("".join(f"{k}={v}\n" for k, v in self.settings().items()))
        archive = f"-XX:SharedArchiveFile={places.kafka_home() / 'broker.jsa'}"
        options = [*JAVA_OPTIONS, *(self._java_options or (archive,))]
        return [str(places.java()), *options, "-cp", classpath, "kafka.Kafka", str(settings)]

    @property
    def hubs_address(self) -> str:
        """Return where clients find what looks like an Event Hubs namespace."""
        return (self.hubs and self.hubs.proxy_address) or self.proxied_hubs_address

    def settings(self) -> dict[str, str]:
        """Return the content of server.properties."""
        bound = {"PLAINTEXT": self.endpoint, "CONTROLLER": f"127.0.0.1:{self._controller_port}"}
        if self._users is not None:
            bound["SASL"] = self.sasl_address
        if self._certificates is not None:
            bound["TLS"] = self.tls_address
        if self.proxy_address is not None:
            bound["PROXIED"] = self.proxied_address
        if self.hubs is not None:
            bound["HUBS"] = self.proxied_hubs_address
        advertised = {name: where for name, where in bound.items() if name != "CONTROLLER"}
        if self.proxy_address is not None:
            advertised["PROXIED"] = self.proxy_address
        if self.hubs is not None:
            advertised["HUBS"] = self.hubs_address
        protocols = {"SASL": "SASL_PLAINTEXT", "TLS": "SSL", "HUBS": "SASL_SSL"}
        return {
            **PROPERTIES,
            "log.dirs": str(self.directory / "data"),
            "controller.quorum.voters": f"1@{bound['CONTROLLER']}",
            "listeners": _listeners(bound),
            "advertised.listeners": _listeners(advertised),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocols.get(name, 'PLAINTEXT')}" for name in bound
            ),
            **self._sasl_settings(),
            **self._tls_settings(),
            **self._hubs_settings(),
            **self._properties,
        }

    def _sasl_settings(self) -> dict[str, str]:
        if self._users is None:
            return {}
        users = " ".join(f'user_{name}="{secret}"' for name, secret in self._users.items())
        settings = {"listener.name.sasl.sasl.enabled.mechanisms": ",".join(SASL_MODULES)}
        for mechanism, module in SASL_MODULES.items():
            known = f" {users}" if mechanism == "PLAIN" else ""
            key = f"listener.name.sasl.{mechanism.lower()}.sasl.jaas.config"
            settings[key] = f"{module} required{known};"
        return settings

    def _tls_settings(self) -> dict[str, str]:
        if self._certificates is None:
            return {}
        return {
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": str(self._certificates.keystore),
        }

    def _hubs_settings(self) -> dict[str, str]:
        if self.hubs is None:
            return {}
        user = f'user_$ConnectionString="{self.hubs.connection_string}"'
        login = f"{SASL_MODULES['PLAIN']} required {user};"
        return {
            "listener.name.hubs.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.hubs.plain.sasl.jaas.config": login,
            "listener.name.hubs.ssl.keystore.type": "PEM",
            "listener.name.hubs.ssl.keystore.location": str(self.hubs.certificates.keystore),
        }

    def ping(self) -> None:
        """Ask for the cluster's metadata, which names the broker once it may serve."""
        if not self._admin().list_topics(timeout=2).brokers:
            raise ServerFailedError("The controller has not unfenced the broker yet.")


def _listeners(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())
