"""JetStream over a blocking connection: properties of streams, and pulling messages."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.lake.buses.nats.protocol import Message, NatsConnection
from tardis_machine.lake.errors import BusError, BusUnavailableError

PULL_MESSAGES = 5000
PULL_BYTES = 8 << 20
"""A server drops a connection that lets more than 64 MiB wait."""
PULLS_AHEAD = 2
IDLE_NS = 60_000_000_000

NO_MESSAGES = 404
TIMED_OUT = 408
ENDED = 409
_TOO_LARGE = b"MaxBytes"
_SEVERAL_FILTERS_SINCE = (2, 10)


@dataclass(frozen=True)
class StreamInfo:
    """Properties of a stream."""

    first: int
    last: int
    messages: int
    subjects: tuple[str, ...]
    retention: str
    created: str
    """When it was created, to the nanosecond."""


class JetStream:
    """Calls of JetStream's API; connects when it is first used, and again after a failure."""

    def __init__(self, settings: NatsSettings) -> None:
        self._settings = settings
        self._connection: NatsConnection | None = None
        domain = "" if settings.domain is None else f".{settings.domain}"
        self._prefix = settings.api_prefix or f"$JS{domain}.API"

    def close(self) -> None:
        """Close the connection; the next call makes another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def knows_several_filters(self) -> bool:
        """Say whether a consumer can have more than one subject."""
        numbers = str(self.connection.info.get("version", "")).split(".")[:2]
        return tuple(int(part) for part in numbers if part.isdigit()) >= _SEVERAL_FILTERS_SINCE

    @property
    def connection(self) -> NatsConnection:
        """Return the connection."""
        if self._connection is None:
            self._connection = NatsConnection(self._settings)
        return self._connection

    def stream_info(self, stream: str) -> StreamInfo:
        """Describe a stream."""
        answer = self.call(f"STREAM.INFO.{stream}")
        state, config = answer["state"], answer["config"]
        return StreamInfo(
            first=int(state["first_seq"]),
            last=int(state["last_seq"]),
            messages=int(state["messages"]),
            subjects=tuple(config.get("subjects") or ()),
            retention=str(config.get("retention", "limits")),
            created=str(answer.get("created", "")),
        )

    def streams_of(self, subject: str) -> list[str]:
        """Return the streams that take a subject."""
        return list(self.call("STREAM.NAMES", {"subject": subject}).get("streams") or ())

    def create_consumer(self, stream: str, start: int, filters: Sequence[str]) -> str:
        """Create a consumer that leaves no trace, and return its name."""
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": IDLE_NS,
            "mem_storage": True,
            "num_replicas": 1,
        }
        if len(filters) == 1:
            config["filter_subject"] = filters[0]
        elif filters:
            config["filter_subjects"] = list(filters)
        body = {"stream_name": stream, "config": config}
        return str(self.call(f"CONSUMER.CREATE.{stream}", body)["name"])

    def call(self, operation: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the API; BusError when the server rejects the call."""
        try:
            answer = self.connection.request(f"{self._prefix}.{operation}", body or {})
        except BusUnavailableError:
            self.close()
            raise
        if fault := answer.get("error"):
            raise _explained(operation, fault)
        return answer

    def pull(self, stream: str, consumer: str, wanted: int) -> Iterator[list[Message]]:
        """Yield messages as they come in, until the consumer has no more.

        Args:
            stream: Whose messages.
            consumer: Which way through them.
            wanted: How many to ask for at most. A caller that has enough just stops.
        """
        subject = f"{self._prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        pulls = Pulls(self.connection, subject, wanted)
        while pulls.ask():
            messages = self.connection.receive()
            if events := pulls.take(messages):
                yield events

    def drop_consumer(self, stream: str, consumer: str) -> None:
        """Delete a consumer before it expires, without waiting for the response."""
        subject = f"{self._prefix}.CONSUMER.DELETE.{stream}.{consumer}"
        self.connection.publish(subject, self.connection.new_inbox(), b"")


class Pulls:
    """Keeps a few pull requests pending at the server, each of limited size."""

    def __init__(self, connection: NatsConnection, subject: str, wanted: int) -> None:
        self._connection = connection
        self._subject = subject
        self._left = wanted
        self._waiting: deque[list[Any]] = deque()
        self._is_over = False
        self._is_single = False

    def ask(self) -> bool:
        """Send pull requests as needed; False: there is nothing to wait for."""
        while not self._is_over and self._left > 0 and len(self._waiting) < PULLS_AHEAD:
            count = 1 if self._is_single else min(self._left, PULL_MESSAGES)
            limit = {} if self._is_single else {"max_bytes": PULL_BYTES}
            inbox = self._connection.new_inbox()
            body = {"batch": count, "no_wait": True, **limit}
            self._connection.publish(self._subject, inbox, json.dumps(body).encode())
            self._waiting.append([inbox.encode(), count])
            self._left -= count
            self._is_single = False
        return bool(self._waiting)

    def take(self, messages: list[Message]) -> list[Message]:
        """Return the events among messages; the others report how requests ended."""
        events = [message for message in messages if message.reply]
        if len(events) == len(messages):
            self._count(len(events))
            return events
        for message in messages:
            if message.reply:
                self._count(1)
            else:
                self._end(message)
        return events

    def _count(self, events: int) -> None:
        """Requests are served one after the other, so events belong to the oldest."""
        while events and self._waiting:
            taken = min(events, self._waiting[0][1])
            self._waiting[0][1] -= taken
            events -= taken
            if not self._waiting[0][1]:
                self._waiting.popleft()

    def _end(self, status: Message) -> None:
        """Note that a request ended before it got all its messages."""
        inboxes = [inbox for inbox, _ in self._waiting]
        if status.subject not in inboxes:
            return
        for _ in range(inboxes.index(status.subject) + 1):
            self._left += self._waiting.popleft()[1]
        if status.status in (NO_MESSAGES, TIMED_OUT):
            self._is_over = True
        elif status.status == ENDED and _TOO_LARGE in status.headers:
            # When not even one fitted, ask for that one without a limit.
            self._is_single = True
        else:
            reason = status.headers.partition(b"\r\n")[0].decode()
            raise BusUnavailableError(f"NATS: the server ended a pull request: {reason}")


def _explained(operation: str, fault: dict[str, Any]) -> BusError:
    text = f"NATS: {operation}: {fault.get('description', fault)}"
    is_passing = int(fault.get("code", 0)) >= 500
    return BusUnavailableError(text) if is_passing else BusError(text)
