"""What goes to one Redis server within one call, and what comes back."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from redis.exceptions import RedisError

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.redis.client import Link, Reply, pack
from tardis_machine.buses.redis.errors import (
    cut_off,
    first_error,
    is_too_long,
    not_connected,
    refusal,
)
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.redis.records import EntryWriter

_MULTI = pack(("MULTI",))
_EXEC = pack(("EXEC",))
_TOO_LARGE = Result(
    Outcome.BAD_RECORD, Reason.TOO_LARGE, "larger than proto-max-bulk-len of the server"
)
_UNSENT = Result(
    Outcome.TRANSIENT, Reason.NOT_SENT, "the server closed the connection because of another event"
)
_NO_TIME = Result(
    Outcome.TRANSIENT, Reason.TIMEOUT, "timeout before it was sent: other servers were slow"
)
_TOO_FEW = Result(
    Outcome.AMBIGUOUS, Reason.TOO_FEW_REPLICAS, "too few replicas acknowledged it in time"
)


@dataclass
class StreamBatch:
    """Events of one stream, and their places in the call."""

    stream: str
    events: Sequence[Event]
    positions: Sequence[int]

    def cut(self, count: int) -> tuple["StreamBatch", "StreamBatch"]:
        """Return the first events, and those after them."""
        return (
            StreamBatch(self.stream, self.events[:count], self.positions[:count]),
            StreamBatch(self.stream, self.events[count:], self.positions[count:]),
        )


@dataclass
class Exchange:
    """Batches for one server: sent together, then answered one after another."""

    link: Link
    settings: RedisSettings
    batches: list[StreamBatch] = field(default_factory=list)
    failure: Result | None = None
    """Why nothing more is to be expected from the server."""

    def send(self, writer: EntryWriter, deadline: float) -> None:
        """Connect if need be, and send all batches with one write."""
        if time.monotonic() > deadline:
            self.failure = _NO_TIME
            return
        try:
            self.link.connect()
        except RedisError as error:
            self.failure = not_connected(error)
            return
        try:
            self.link.write(b"".join(self._commands(writer)))
        except RedisError as error:
            self.failure = cut_off(error)

    def receive(self, deadline: float) -> Iterator[tuple[StreamBatch, list[Result]]]:
        """Yield the results of each batch."""
        found = [(batch, self._results(batch, deadline)) for batch in self.batches]
        is_copied = self._is_copied(deadline)
        for batch, results in found:
            yield batch, results if is_copied else [_uncopied(result) for result in results]

    def _commands(self, writer: EntryWriter) -> list[bytes]:
        commands: list[bytes] = []
        for batch in self.batches:
            packed = writer.pack(batch.stream, batch.events)
            commands += [_MULTI, *packed, _EXEC] if self.settings.transaction else packed
        if self.settings.wait_replicas:
            commands.append(self._wait_command())
        return commands

    def _results(self, batch: StreamBatch, deadline: float) -> list[Result]:
        if self.failure is not None:
            return [self.failure] * len(batch.events)
        extra = 2 if self.settings.transaction else 0
        replies, failure = self.link.read(len(batch.events) + extra, deadline)
        if failure is not None:
            self.failure = cut_off(failure)
            return self._interrupted(batch, replies)
        return _executed(replies) if self.settings.transaction else _single(replies)

    def _interrupted(self, batch: StreamBatch, replies: Sequence[Reply]) -> list[Result]:
        """Return the results of a batch whose replies ended early."""
        assert self.failure is not None
        error = first_error(replies)
        if error is None or not is_too_long(error):
            return [self.failure] * len(batch.events)
        # The server hangs up on a too long argument, before the transaction is executed and before
        # anything after it is read. If any event is too long, the longest is.
        self.failure = _UNSENT
        longest = max(batch.events, key=lambda event: len(event.data))
        return [_TOO_LARGE if event is longest else _UNSENT for event in batch.events]

    def _wait_command(self) -> bytes:
        settings = self.settings
        return pack(("WAIT", settings.wait_replicas, settings.wait_timeout_ms))

    def _is_copied(self, deadline: float) -> bool:
        """Say whether enough replicas have everything that was sent."""
        if not self.settings.wait_replicas or self.failure is not None:
            return True
        replies, failure = self.link.read(1, deadline)
        copies = replies[0] if failure is None else 0
        return isinstance(copies, int) and copies >= self.settings.wait_replicas


def _executed(replies: Sequence[Reply]) -> list[Result]:
    """Return the results of a transaction: MULTI, the queued commands, EXEC."""
    begun, *queued, executed = replies
    if isinstance(executed, list):
        return _single(executed)
    if isinstance(begun, RedisError):
        # Without a transaction, every command stood for itself.
        return _single(queued)
    # A command that could not be queued is why EXEC refused; nothing of the batch is stored.
    error = first_error(queued) or executed
    return [refusal(error)] * len(queued)


def _single(replies: Sequence[Reply]) -> list[Result]:
    # An entry that was added is answered by its id.
    if set(map(type, replies)) <= {bytes} or first_error(replies) is None:
        return [OK] * len(replies)
    return [refusal(reply) if isinstance(reply, RedisError) else OK for reply in replies]


def _uncopied(result: Result) -> Result:
    return _TOO_FEW if result.outcome is Outcome.OK else result
