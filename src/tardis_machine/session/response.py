"""The records of a request as the lines a client gets, with a copy to the publisher."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from tardis_machine.model.control import FeedError
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import Record
from tardis_machine.model.time import Clock, us_text
from tardis_machine.session.context import SessionContext
from tardis_machine.session.plan import NormalizedPlan
from tardis_machine.session.run import client_records
from tardis_machine.session.silent_symbols import TellSilent
from tardis_machine.sinks.publisher.client import PublishedStream

JOINED_BYTES = 256 * 1024
"""From this size on bodies are not joined any more."""


async def client_body(
    plan: NormalizedPlan,
    context: SessionContext,
    copy: PublishedStream | None = None,
    on_silent: TellSilent | None = None,
) -> AsyncGenerator[tuple[int, bytes], None]:
    """Yield the number of records of each chunk and their NDJSON.

    With `copy`, the same bytes go to the publisher, and so do disconnects that the client did not
    ask to see and the error that ends the stream. `on_silent` is told which symbols never came.
    """
    if copy is None:
        async with aclosing(_bodies(client_records(plan, context, on_silent=on_silent))) as bodies:
            async for body in bodies:
                yield body
        return
    try:
        async with aclosing(_copied_body(plan, context, copy, on_silent)) as bodies:
            async for body in bodies:
                yield body
    except Exception as error:
        await copy.publish(encode_lines(control_errors(plan, error, context.clock)))
        raise
    finally:
        copy.close()


class _Ready:
    """Bodies that are written together, because every write has its price."""

    def __init__(self) -> None:
        self._bodies: list[bytes] = []
        self._count = 0
        self.size = 0

    def add(self, records: list[Record]) -> None:
        """Encode records and forget them: who waits for a slow client would hold them."""
        body = encode_lines(records)
        self._bodies.append(body)
        self._count += len(records)
        self.size += len(body)
        records.clear()

    def take(self) -> tuple[int, bytes]:
        """Return the number of records and their NDJSON."""
        taken = self._count, b"".join(self._bodies)
        self._bodies, self._count, self.size = [], 0, 0
        return taken


async def _bodies(
    chunks: AsyncGenerator[list[Record], None],
) -> AsyncGenerator[tuple[int, bytes], None]:
    """Encode chunks as they come; hand them on when nothing more is ready, or it is enough."""
    ready = _Ready()
    async with aclosing(chunks):
        try:
            async for records in chunks:
                is_last = not records
                ready.add(records)
                if ready.size >= JOINED_BYTES or (is_last and ready.size):
                    yield ready.take()
        except Exception:
            # What came before a bad message is good and goes out first.
            if ready.size:
                yield ready.take()
            raise
    if ready.size:
        yield ready.take()


async def _copied_body(
    plan: NormalizedPlan,
    context: SessionContext,
    copy: PublishedStream,
    on_silent: TellSilent | None,
) -> AsyncGenerator[tuple[int, bytes], None]:
    unseen: list[Record] = []
    records = client_records(plan, context, unseen.append, on_silent)
    async with aclosing(_bodies(records)) as bodies:
        async for count, body in bodies:
            await copy.publish(body, events=count)
            if unseen:
                await copy.publish(encode_lines(unseen))
                unseen.clear()
            yield count, body
    await copy.publish(encode_lines(unseen))


def control_errors(plan: NormalizedPlan, error: Exception, clock: Clock) -> list[FeedError]:
    """Return the error records of a failed stream, for consumers of the buses."""
    now = us_text(clock())
    details = str(error) or type(error).__name__
    return [
        FeedError(
            exchange=exchange, local_timestamp=now, details=details, subsequent_errors_count=0
        )
        for exchange in sorted(plan.exchanges)
    ]
