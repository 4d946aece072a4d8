"""One client's connection to the Event Hubs namespace: its links and what travels on them."""

import asyncio
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from proton import Condition, Delivery, Link, Message, Receiver, Sender, Session, Terminus

from tests.servers.amqp_connection import AmqpConnection
from tests.servers.event_hubs_faults import Detach, Fault, Hang, Reject, Release
from tests.servers.event_hubs_store import Hub, Partition
from tests.servers.faults import AbortAfter, AbortBefore, Delay, Pass

CREDIT = 1_000
MAX_MESSAGE_BYTES = 1_048_576
REQUEST_NODES = ("$cbs", "$management")


class Namespace(Protocol):
    """What a connection needs of the server."""

    connections: "set[Peer]"
    is_paused: bool

    def hub(self, name: str) -> Hub | None:
        """Return a hub by name."""

    def take_fault(self) -> Fault:
        """Return what shall happen to the send at hand."""

    def answer_request(self, path: str, request: Message) -> Message:
        """Answer a request to `$cbs` or `$management`."""


@dataclass(eq=False)
class Feed:
    """One receiver's way through a partition."""

    link: Sender
    partition: Partition
    position: int
    tags: int = 0

    def push(self) -> None:
        """Send the events that are there and wanted."""
        events = self.partition.events
        while self.link.credit > 0 and self.position < len(events):
            self.tags += 1
            _send(self.link, str(self.tags), events[self.position].delivered())
            self.position += 1


class Peer(AmqpConnection):
    """Receive events and requests, send events and replies."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__()
        self._namespace = namespace
        self._feeds: dict[Link, Feed] = {}
        self._reply_links: dict[tuple[Session, str], Sender] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the namespace."""
        super().connection_made(transport)
        self._namespace.connections.add(self)
        if self._namespace.is_paused:
            self.hold()

    def connection_lost(self, error: Exception | None) -> None:
        """Leave the namespace."""
        super().connection_lost(error)
        self._namespace.connections.discard(self)
        for feed in self._feeds.values():
            feed.partition.listeners.discard(self.push_all)

    def push_all(self) -> None:
        """Send new events to the receivers of this connection."""
        for feed in self._feeds.values():
            feed.push()
        self.write()

    def attached(self, link: Link) -> None:
        """Open the link to what its address names, or close it when nothing is there."""
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        link.max_message_size = MAX_MESSAGE_BYTES
        link.open()
        path = _path(link.source if link.is_sender else link.target)
        hub_name, *rest = path.split("/")
        hub = self._namespace.hub(hub_name)
        if path.endswith(REQUEST_NODES):
            self._open_request_link(link, path)
        elif hub is None:
            _close(link, "amqp:not-found", f"The messaging entity {hub_name!r} was not found.")
        elif link.is_sender:
            self._open_feed(link, hub.partitions[int(rest[-1])])
        else:
            link.flow(CREDIT)

    def _open_request_link(self, link: Link, path: str) -> None:
        if link.is_sender:
            # Requests name no reply address: the reply goes to the link beside the request's.
            self._reply_links[link.session, path] = link
        else:
            link.flow(CREDIT)

    def _open_feed(self, link: Sender, partition: Partition) -> None:
        self._feeds[link] = Feed(link, partition, partition.start_of(_selector(link)))
        partition.listeners.add(self.push_all)

    def detached(self, link: Link) -> None:
        """Close our side too."""
        self._feeds.pop(link, None)
        link.close()

    def credited(self, link: Link) -> None:
        """Send the events that the receiver has room for."""
        if link in self._feeds:
            self._feeds[link].push()

    def delivered(self, delivery: Delivery) -> None:
        """Take a message; settle one of ours when the receiver has."""
        link = delivery.link
        if link.is_sender:
            if delivery.settled:
                delivery.settle()
        elif link.state & Link.LOCAL_ACTIVE and delivery.readable and not delivery.partial:
            message = bytes(link.recv(delivery.pending))
            link.advance()
            link.flow(1)
            path = _path(link.target)
            if path.endswith(REQUEST_NODES):
                self._answer(link, delivery, path, message)
            else:
                self._take_send(link, delivery, message)

    def _answer(self, link: Receiver, delivery: Delivery, path: str, encoded: bytes) -> None:
        _settle(delivery, Delivery.ACCEPTED)
        request = Message()
        request.decode(encoded)
        reply = self._namespace.answer_request(path, request)
        _send(self._reply_links[link.session, path], str(request.id), reply.encode())

    def _take_send(self, link: Receiver, delivery: Delivery, encoded: bytes) -> None:
        match self._namespace.take_fault():
            case Pass():
                self._accept(link, delivery, encoded)
            case Reject(condition, description):
                delivery.local.condition = _condition(condition, description)
                _settle(delivery, Delivery.REJECTED)
            case Release():
                _settle(delivery, Delivery.RELEASED)
            case Detach(condition, description):
                _close(link, condition, description)
            case Delay(seconds):
                self.loop.call_later(seconds, self._accept, link, delivery, encoded)
            case AbortBefore(is_reset):
                self.abort(is_reset=is_reset)
            case AbortAfter(is_reset):
                self._store(link, encoded)
                self.abort(is_reset=is_reset)
            case Hang():
                pass

    def _accept(self, link: Receiver, delivery: Delivery, encoded: bytes) -> None:
        self._store(link, encoded)
        _settle(delivery, Delivery.ACCEPTED)
        self.write()

    def _store(self, link: Receiver, encoded: bytes) -> None:
        hub_name, *rest = _path(link.target).split("/")
        hub = self._namespace.hub(hub_name)
        assert hub is not None
        hub.store(encoded, rest[-1] if rest else None)


def _send(link: Sender, tag: str, encoded: bytes) -> None:
    link.delivery(tag)
    link.stream(encoded)
    link.advance()


def _settle(delivery: Delivery, outcome: int) -> None:
    # azure-eventhub ignores an outcome that is not settled as well.
    delivery.update(outcome)
    delivery.settle()


def _condition(name: str, description: str) -> Condition:
    # Without an info map azure-eventhub fails inside its own callback, and the send hangs.
    return Condition(name, description, {"server": "test"})


def _close(link: Link, condition: str, description: str) -> None:
    link.condition = _condition(condition, description)
    link.close()


def _path(terminus: Terminus) -> str:
    address = terminus.address or ""
    return (urlsplit(address).path if "://" in address else address).strip("/")


def _selector(link: Sender) -> str:
    data = link.remote_source.filter
    data.rewind()
    if data.next() is None:
        return ""
    return " ".join(str(item.value) for item in data.get_dict().values())
