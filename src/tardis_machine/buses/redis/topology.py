"""Finds the server of a stream: a single server, the master of sentinels, or by hash slot."""

from collections.abc import Iterator
from typing import Any

from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError

from tardis_machine.buses.redis.client import Address, Link, connection_options, sentinel_options
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.model.errors import SinkUnavailableError
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)


class Topology:
    """Finds the connection for a stream and keeps connections to all servers in use."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._options = connection_options(settings)
        self._links: dict[Address, Link] = {}
        self._seed: Link | None = None
        self._slots: list[tuple[int, int, Link]] = []
        self._by_stream: dict[str, Link] = {}
        self._is_stale = False
        self.is_cluster = settings.cluster == "on"

    def open(self) -> Link:
        """Connect and return a connection to a server that responds."""
        self.close()
        self._seed = self._make_seed()
        self._seed.connect()
        if self.is_cluster:
            self._load_slots()
        return self._seed

    def join_cluster(self) -> None:
        """Switch to hash slots: the server turned out to be part of a cluster."""
        self.is_cluster = True
        self.forget()

    def forget(self) -> None:
        """Look up masters and slots again before the next use."""
        self._is_stale = True

    def link(self, stream: str) -> Link:
        """Return the link to the server of a stream; RedisError when none is known."""
        if self._is_stale:
            self._refresh()
        if not self.is_cluster:
            assert self._seed is not None
            return self._seed
        if stream not in self._by_stream:
            self._by_stream[stream] = self._find(stream)
        return self._by_stream[stream]

    def close(self) -> None:
        """Close every link."""
        for link in self._all_links():
            link.close()
        self._links.clear()
        self._by_stream.clear()
        self._slots.clear()
        self._seed = None

    def _all_links(self) -> Iterator[Link]:
        yield from self._links.values()
        if self._seed is not None:
            yield self._seed

    def _make_seed(self) -> Link:
        if not self._settings.sentinel_hosts:
            return Link(self._options)
        host, port = self._ask_sentinels()
        return Link({**self._options, "host": host, "port": port})

    def _ask_sentinels(self) -> Address:
        failures = []
        for address in self._settings.sentinel_addresses:
            link = Link(sentinel_options(self._settings, address))
            try:
                found = link.ask(
                    "SENTINEL", "GET-MASTER-ADDR-BY-NAME", str(self._settings.sentinel_master)
                )
            except RedisError as error:
                failures.append(f"{link.where}: {error}")
            else:
                if found is not None:
                    return found[0].decode(), int(found[1])
                failures.append(f"{link.where}: unknown master")
            finally:
                link.close()
        master = self._settings.sentinel_master
        raise SinkUnavailableError(
            f"No sentinel knows the master {master!r}: {'; '.join(failures)}"
        )

    def _refresh(self) -> None:
        """Find out what changed; on failure the old knowledge stays and is doubted again."""
        if self.is_cluster:
            self._load_slots()
        elif self._settings.sentinel_hosts:
            seed = self._make_seed()
            if self._seed is not None and seed.where != self._seed.where:
                self._seed.close()
                self._seed = seed
        self._is_stale = False

    def _load_slots(self) -> None:
        failure: RedisError | None = None
        # Connected servers respond soonest.
        for link in sorted(self._all_links(), key=lambda link: not link.is_connected):
            try:
                self._keep_slots(link.ask("CLUSTER", "SLOTS"), link)
            except RedisError as error:
                failure = error
            else:
                return
        if failure is not None:
            raise failure

    def _keep_slots(self, ranges: list[Any], asked: Link) -> None:
        host_asked, _, _ = asked.where.rpartition(":")
        self._slots = [
            (start, end, self._link_to((master[0].decode() or host_asked, int(master[1]))))
            for start, end, master, *_ in ranges
        ]
        self._by_stream.clear()
        self._drop_unused()

    def _link_to(self, address: Address) -> Link:
        if address not in self._links:
            host, port = address
            self._links[address] = Link({**self._options, "host": host, "port": port})
        return self._links[address]

    def _drop_unused(self) -> None:
        used = {id(link) for _, _, link in self._slots}
        for address, link in list(self._links.items()):
            if id(link) not in used:
                link.close()
                del self._links[address]

    def _find(self, stream: str) -> Link:
        slot = key_slot(stream.encode())
        for start, end, link in self._slots:
            if start <= slot <= end:
                return link
        self.forget()
        raise ResponseError(f"Hash slot {slot} has no server.", status_code="CLUSTERDOWN")
