"""The NATS sink, on nats-py: JetStream with acknowledgements on an inbox of its own.

A batch is published without waiting, and every answer comes back to a numbered subject of the
inbox. TCP and one connection keep the order; the message id lets the stream drop what comes again.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence

import nats.errors

from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import HELD_BACK, OK, Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.nats.connection import CUT, Connection
from tardis_machine.sinks.nats.in_flight import Window
from tardis_machine.sinks.nats.records import MAX_SUBJECT_BYTES, RecordHeaders
from tardis_machine.sinks.nats.streams import create_stream
from tardis_machine.sinks.nats.wire import Message
from tardis_machine.sinks.private_loop import PrivateLoop
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_LOST = Result(Outcome.CLIENT_LOST, Reason.CONNECTION_LOST, "the connection is closed")
_LATE = Result(Outcome.AMBIGUOUS, Reason.TIMEOUT, "no acknowledgement within nats-ack-timeout-ms")
_NO_LEADER = Result(
    Outcome.TRANSIENT, Reason.NO_LEADER, "no responders, but the stream stored this subject before"
)

_CLOSE_SECONDS = 2.0
_ABORT_SECONDS = 0.2
"""A connection that failed to open has nothing to say any more."""
_DUPLICATE_WINDOW_SECONDS = 120.0
_KNOWN_SUBJECTS = 131_072


class NatsSink:
    """Publishes events to NATS subjects.

    Args:
        settings: What to connect to.
        delivery: How events are delivered.
        is_fast: Use private places of nats-py; None: when its version was tested.
    """

    keeps_order = False

    def __init__(
        self, settings: NatsSettings, delivery: EventBusSettings, *, is_fast: bool | None = None
    ) -> None:
        self._settings = settings
        self._is_fast = is_fast
        self.max_batch_events = settings.max_pending
        self.max_batch_bytes = settings.max_batch_bytes
        self.max_batch_delay_seconds = settings.max_batch_delay_ms / 1000
        self._ack_seconds = settings.ack_timeout_ms / 1000
        self._log_interval_seconds = delivery.log_interval_ms / 1000
        self._headers = RecordHeaders(settings, delivery.message_id)
        self._loop = PrivateLoop()
        self._connection: Connection | None = None
        self._next_number = 0
        self._last_id: str | None = None
        """With strict order: the id of the last event the stream has, if that is known."""
        self._known: set[str] = set()
        """Subjects that a stream took events of, since the connection was made."""
        self._warned_at = float("-inf")

    def open(self) -> None:
        """Connect, and create the stream when that is wanted."""
        self._loop.run(self._end(_CLOSE_SECONDS))
        if self._settings.mode == "core":
            log.warning("nats-mode is core: events may be lost silently")
        self._loop.run(self._open())

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        """Publish events and wait for their answers."""
        connection = self._connection
        if connection is None or connection.is_lost:
            return [_LOST] * len(events)
        self._warn_of_age(events[0])
        return self._loop.run(self._send(connection, events))

    def idle(self, seconds: float) -> None:
        """Answer the servers' pings."""
        self._loop.idle(seconds)

    def close(self, seconds: float) -> None:
        """End the connection."""
        self._loop.run(self._end(seconds))
        self._loop.close()

    async def _open(self) -> None:
        connection = Connection(self._settings)
        try:
            await connection.open(is_fast=self._is_fast)
            if self._settings.create_stream:
                await create_stream(connection.client, self._settings)
        except SinkError:
            await connection.close(_ABORT_SECONDS)
            raise
        self._known.clear()
        self._last_id = None
        self._connection = connection

    async def _end(self, seconds: float) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close(seconds)

    async def _send(self, connection: Connection, events: Sequence[Event]) -> list[Result]:
        results: list[Result] = []
        size = self._settings.max_pending
        for start in range(0, len(events), size):
            window = await self._send_window(connection, events[start : start + size])
            results += self._judged(events[start : start + size], window)
            if not window.is_all_ok:
                self._last_id = None
            if window.is_held_up:
                break
        rest = _LOST if connection.is_lost else HELD_BACK
        return results + [rest] * (len(events) - len(results))

    async def _send_window(self, connection: Connection, events: Sequence[Event]) -> Window:
        """Publish events that may all be on their way at once; return when all are settled."""
        window = connection.window = Window(events, self._next_number)
        self._next_number += len(events)
        connection.violation = ""
        try:
            async with asyncio.timeout(self._ack_seconds):
                for messages in self._batches(connection, window, events):
                    await connection.wire.publish(messages)
            await self._settle(connection, window)
        except TimeoutError:
            await self._give_up(connection, window)
        except (nats.errors.Error, OSError):
            # What was not handed over is not stored either, but only the servers know the border.
            window.settle_rest(CUT)
        finally:
            connection.window = None
        return window

    def _batches(
        self, connection: Connection, window: Window, events: Sequence[Event]
    ) -> Iterator[list[Message]]:
        """Yield the messages of a window in batches; events that cannot be sent are settled."""
        size = self._settings.max_batch_size
        reply_to = connection.inbox if self._settings.mode == "jetstream" else ""
        limit = min(
            connection.client.max_payload,
            self._settings.max_record_bytes or connection.client.max_payload,
        )
        for start in range(0, len(events), size):
            batch: list[Message] = []
            for number, event in enumerate(events[start : start + size], window.first + start):
                headers = self._headers.text(event, self._last_id)
                subject, data = event.route.destination, event.data
                if len(headers) + len(data) > limit or len(subject) > MAX_SUBJECT_BYTES:
                    window.settle(number, _too_large(event, len(headers), limit))
                    continue
                reply = f"{reply_to}{number}" if reply_to else ""
                batch.append((subject, reply, headers, data))
                if self._settings.strict_order:
                    self._last_id = self._headers.id_of(event)
            yield batch

    async def _settle(self, connection: Connection, window: Window) -> None:
        """Wait until every event has its answer."""
        if self._settings.mode == "core":
            # The answer to a ping says that the servers have read all that came before it.
            async with asyncio.timeout(self._ack_seconds):
                await connection.round_trip()
            window.settle_rest(OK)
        elif not await window.wait(self._ack_seconds):
            await self._give_up(connection, window)

    async def _give_up(self, connection: Connection, window: Window) -> None:
        """End a connection on which no answer comes any more."""
        window.settle_rest(connection.refusal if connection.violation else _LATE)
        await connection.close(_CLOSE_SECONDS)

    def _judged(self, events: Sequence[Event], window: Window) -> list[Result]:
        """Return the results of a window; a stream that was there may be changing its leader."""
        subjects = [event.route.destination for event in events]
        results = [result or _LATE for result in window.results]
        lost: set[str] = set()
        if not window.is_all_ok:
            lost = {
                subject
                for subject, result in zip(subjects, results, strict=True)
                if result.reason is Reason.NO_DESTINATION
            }
            changing = lost & self._known
            results = [
                _NO_LEADER
                if result.reason is Reason.NO_DESTINATION and subject in changing
                else result
                for subject, result in zip(subjects, results, strict=True)
            ]
        self._remember(subjects, lost)
        return results

    def _remember(self, subjects: Iterable[str], lost: set[str]) -> None:
        """Keep which subjects have a stream; one that says otherwise twice has none."""
        if len(self._known) > _KNOWN_SUBJECTS:
            self._known.clear()
        self._known.update(subjects)
        self._known -= lost

    def _warn_of_age(self, event: Event) -> None:
        """Say that events sent again are so old that a stream may not know them any more."""
        now = time.monotonic()
        is_due = now - self._warned_at >= self._log_interval_seconds
        age = time.time() - event.accepted_at
        if event.attempts and is_due and age > _DUPLICATE_WINDOW_SECONDS:
            self._warned_at = now
            log.warning(
                "retries are older than the deduplication window; duplicates are possible",
                age_seconds=round(age),
            )


def _too_large(event: Event, headers_bytes: int, limit: int) -> Result:
    size = headers_bytes + len(event.data)
    if size <= limit:
        return Result(Outcome.BAD_RECORD, Reason.SUBJECT_TOO_LONG, event.route.destination[:100])
    return Result(Outcome.BAD_RECORD, Reason.TOO_LARGE, f"{size} bytes with headers, limit {limit}")
